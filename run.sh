#!/bin/sh
# Run a verb of aragorn; default: rank, which writes one TREC run per system. Verbs and options: --help, VERB --help
set -eu
if ! true >&2; then exec 2>/dev/null; fi  # ranking works without stderr
trap 'echo "interrupted; run the same command to start again" >&2; exit 130' INT
root=$(dirname "$(readlink -f -- "$0")")  # this script may be a symbolic link
case "${1-}" in -h | --help | --version) ;; "" | -*) set -- rank "$@" ;; esac
python=$("$root/submission/install.sh")
trap '' INT  # until Python handles it
# PYTHONSAFEPATH: do not import files of the caller's directory. HF_HUB_OFFLINE: no network access.
ARAGORN_PROGRAM=./run.sh PYTHONSAFEPATH=1 PYTHONPATH="$root/submission" HF_HUB_OFFLINE=1 exec "$python" -m aragorn "$@"
