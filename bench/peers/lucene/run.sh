#!/usr/bin/env bash
# run.sh DIR DOCS QUERIES union|and|phrase [K] [ids] [count] [share=N]: Lucene on the files of quarry bench text. Needs Java 21 or later (JAVA_HOME, or java on the path) and,
# the first time, Maven, which fetches what pom.xml pins into the cache folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lib=${XDG_CACHE_HOME:-$HOME/.cache}/quarry-peers/lucene-10.4.0
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if [ ! -d "$lib" ]; then mvn -q -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$lib" >&2; fi
exec "$java" -Xmx4g --add-modules jdk.incubator.vector -cp "$lib/*" "$here/Peer.java" "$@"
