#!/bin/sh
# The main job: topics and corpus in, one TREC run per system out. All flags: ./run.sh --help
# Or, for people: ./run.sh search "Should zoos be abolished?"
set -eu
if ! true >&2; then exec 2>/dev/null; fi  # a run does not need stderr
trap 'echo "stopped; the same command begins anew" >&2; exit 130' INT
root=$(cd "$(dirname "$0")" && pwd)
verb=rank
if [ "${1-}" = search ]; then verb=search; shift; fi
python=$(python3 "$root/submission/environment.py" "$root/requirements.txt")
trap '' INT  # until Python hears it
# Safe path: a file in the caller's directory must not be taken for a module. Offline: no library may call home.
PYTHONSAFEPATH=1 PYTHONPATH="$root" HF_HUB_OFFLINE=1 exec "$python" -m submission "$verb" "$@"
