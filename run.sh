#!/bin/sh
# Rank topics over a corpus and write one TREC run per system. All options: ./run.sh --help
# Search interactively: ./run.sh search "Should zoos be abolished?"
set -eu
if ! true >&2; then exec 2>/dev/null; fi  # ranking works without stderr
trap 'echo "interrupted; run the same command to start again" >&2; exit 130' INT
root=$(cd "$(dirname "$0")" && pwd)
verb=rank
if [ "${1-}" = search ]; then verb=search; shift; fi
python=$(python3 "$root/submission/environment.py" "$root/requirements.txt")
trap '' INT  # until Python handles it
# PYTHONSAFEPATH: do not import files of the caller's directory. HF_HUB_OFFLINE: no network access.
PYTHONSAFEPATH=1 PYTHONPATH="$root" HF_HUB_OFFLINE=1 exec "$python" -m submission "$verb" "$@"
