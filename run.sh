#!/bin/sh
# The main job: topics and corpus in, one TREC run per system out. All flags: ./run.sh --help
set -eu
root=$(cd "$(dirname "$0")" && pwd)
python=$(python3 "$root/submission/environment.py" "$root/requirements.txt")
# Safe path: a file in the caller's directory must not be taken for a module. Offline: no library may call home.
PYTHONSAFEPATH=1 PYTHONPATH="$root" HF_HUB_OFFLINE=1 exec "$python" -m submission rank "$@"
