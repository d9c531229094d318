#!/bin/sh
# install.sh [ray] [openvino] [pyterrier] [irds] [training] [tests]: print the path of a Python with the packages of the
# locks, which are installed into .venv if they are missing. ARAGORN_TORCH=cpu or cuda selects PyTorch (default: cuda if there is a driver).
set -eu
root=$(dirname "$(dirname "$(readlink -f -- "$0")")")
if [ -e "$root/.installed" ]; then command -v python3; exit; fi  # in the image

fail() {
    echo "error: $1" >&2
    exit 1
}

venv=$root/.venv
python=$venv/bin/python
torch=${ARAGORN_TORCH:-$([ -e /proc/driver/nvidia/version ] && echo cuda || echo cpu)}
locks="requirements.lock requirements-$torch.lock"
for name in "$@"; do
    case $name in
    training | tests) locks="$locks $name/requirements.lock" ;;
    *) locks="$locks requirements-$name.lock" ;;
    esac
done

for lock in $locks; do
    [ -f "$root/$lock" ] ||
        fail "no $lock; expected ARAGORN_TORCH=cpu or cuda, and extras from ray, openvino, pyterrier, irds, training, tests"
done

# A copy of each lock in .venv shows that it is installed.
copy_path() {
    case $1 in
    *-cpu.lock | *-cuda.lock) echo "$venv/torch.lock" ;;
    *) echo "$venv/$(echo "$1" | tr / -)" ;;
    esac
}

is_complete() {
    [ -x "$python" ] || return 1
    for lock in $locks; do
        cmp -s "$root/$lock" "$(copy_path "$lock")" || return 1
    done
}

# Of the settings of pip, those of indexes, network and cache apply; others could redirect or break the installation.
for name in $(env | sed -n 's/^\(PIP_[A-Z0-9_]*\)=.*/\1/p'); do
    case $name in
    PIP_*INDEX* | PIP_FIND_LINKS | PIP_*CERT | PIP_*PROXY | PIP_TRUSTED_HOST | PIP_KEYRING_PROVIDER) ;;
    PIP_*TIMEOUT | PIP_RETRIES | PIP_*CACHE_DIR | PIP_CONFIG_FILE) ;;
    *) unset "$name" ;;
    esac
done

# Print the settings of the same kinds in pip's configuration files as shell commands that set variables.
print_file_settings() {
    "$python" -I - << 'END'
import ast, os, re, shlex, subprocess, sys

NAMES = "INDEX|FIND_LINKS|CERT|PROXY|TRUSTED_HOST|KEYRING|TIMEOUT|RETRIES|CACHE_DIR"
command = [sys.executable, "-I", "-m", "pip", "config", "list"]
environment = os.environ | {"PIP_QUIET": "0", "PIP_VERBOSE": "0"}  # print the settings only, and all of them
pip = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
if pip.returncode:
    sys.exit(pip.returncode)
for section in ("global.", "install."):  # the last one that has a setting determines it
    for key, value in (line.split("=", 1) for line in pip.stdout.splitlines() if "=" in line):
        name = "PIP_" + key.removeprefix(section).replace("-", "_").upper()
        is_valid = key.startswith(section) and re.fullmatch(rf"PIP_\w*({NAMES})\w*", name)
        if is_valid and not os.environ.get(name):
            print(f"export {name}={shlex.quote(str(ast.literal_eval(value)))}")
END
}

install() {
    "$python" -I -m pip install --disable-pip-version-check --quiet --no-deps "$@" >&2
}

# The lock of PyTorch for CPUs has the hash of the wheel for Python 3.11. PyPI lacks these wheels, but a mirror that pip is
# configured for may have them.
install_cpu_torch() {
    links=${TORCH_LINKS:-https://download.pytorch.org/whl/cpu/torch/}
    if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
        set -- --require-hashes --requirement "$1"
    else
        set -- "$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' "$1")"
    fi
    install "$@" 2>/dev/null || install --find-links "$links" "$@"
}

if ! is_complete; then
    [ ! -e "$venv" ] || [ -d "$venv" ] || fail "$venv is no virtual environment of this project; move it away"
    [ ! -e "$venv" ] || [ -w "$venv" ] ||
        fail "$venv is incomplete, or its Python cannot be executed, and user $(id -un) cannot write to it; use a copy of the project"
    exec 9< "$root/submission/install.sh"
    if ! flock --nonblock 9; then
        echo "Waiting for another installation into $venv" >&2
        flock 9
    fi
    if ! "$python" -I -m pip --version > /dev/null 2>&1; then
        python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "install Python 3.11 or later"
        # a link or a directory of another kind is the user's: --clear would empty it
        { [ ! -L "$venv" ] && { [ ! -e "$venv" ] || [ -f "$venv/pyvenv.cfg" ]; }; } ||
            fail "$venv is not a virtual environment of this project; move it away"
        echo "Creating $venv" >&2
        python3 -m venv --clear "$venv" >&2 || fail "python3 -m venv failed; install the venv module (package python3-venv)"
    fi
    settings=$(print_file_settings) || fail "cannot read the settings of pip; see \`pip config debug\`"
    eval "$settings"
    export PIP_CONFIG_FILE=/dev/null
    for lock in $locks; do
        copy=$(copy_path "$lock")
        ! cmp -s "$root/$lock" "$copy" || continue
        echo "Installing the packages of $lock into $venv" >&2
        case $lock in
        *-cpu.lock) install_cpu_torch "$root/$lock" ;;
        *) install --require-hashes --requirement "$root/$lock" ;;
        esac || fail "cannot install $lock into $venv; see pip's output above, or delete $venv and try again"
        cp "$root/$lock" "$copy"
    done
fi
echo "$python"
