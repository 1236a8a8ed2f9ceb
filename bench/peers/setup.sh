#!/usr/bin/env bash
# Makes the environment of the Python peers, in PEERS_VENV or below the user's cache folder. Safe to run again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=${PEERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry-peers/venv}
python3 -m venv "$venv"
"$venv/bin/pip" -q install -r "$here/requirements.txt"
echo "$venv/bin/python"
