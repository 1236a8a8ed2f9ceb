#!/usr/bin/env bash
# vectors.sh OUT DIR... runs every engine at several numbers of links on folders with base.fvecs, query.fvecs and gt.ivecs, one after the other, and
# appends their lines to OUT/SET.jsonl. A folder named fashion-mnist is measured by l2, others by cos. ENGINES and LINKS choose others;
# KEEP names a folder that keeps what was built for the next run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry-peers/venv}/bin/python
out=$1
shift
mkdir -p "$out"
for dir in "$@"; do
  set=$(basename "$dir")
  metric=cos
  if [ "$set" = fashion-mnist ]; then metric=l2; fi
  for engine in ${ENGINES:-hnswlib faiss usearch vsag zvec qdrant-edge}; do
    for m in ${LINKS:-16 32}; do
      "$python" "$here/vectors.py" "$engine" "$dir/base.fvecs" "$dir/query.fvecs" "$dir/gt.ivecs" --metric "$metric" --m "$m" ${KEEP:+--keep "$KEEP"} | grep '^{' >>"$out/$set.jsonl" # vsag logs to stdout
    done
  done
done
