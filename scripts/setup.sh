#!/bin/sh
# Make .venv: a Python that fits, this project and what it needs, and the distribution's bcc.
#
#   scripts/setup.sh [--dev] [--torch]
#
# As root on Debian or Ubuntu it first installs what is missing from the distribution. Without root
# it says what to install and goes on with what can run. PYTHON=/path/to/python3 picks the Python.
set -eu
cd "$(dirname "$0")/.."

PACKAGES="python3-bpfcc python3-venv iproute2 nftables"
TORCH="${TORCH:-torch==2.13.0}"

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$1"; [ $# -lt 2 ] || say "  mend: $2"; exit 2; }

have_bcc() { [ -n "$(bcc_folder)" ]; }

bcc_folder() {
  for folder in /usr/lib/python3/dist-packages/bcc /usr/lib/python3*/site-packages/bcc \
    /usr/lib64/python3*/site-packages/bcc; do
    if [ -f "$folder/libbcc.py" ]; then printf '%s' "$folder"; return; fi
  done
}

missing_packages() {
  have_bcc || printf 'python3-bpfcc '
  # Debian splits venv from Python; a Python of the user's own brings it along.
  if [ -z "${PYTHON:-}" ] && ! fits /usr/bin/python3 && [ -z "$(any_python)" ]; then
    printf 'python3-venv '
  fi
  command -v ip >/dev/null 2>&1 || printf 'iproute2 '
  command -v nft >/dev/null 2>&1 || [ -x /usr/sbin/nft ] || printf 'nftables '
}

# A Python fits when it is 3.10 to 3.13 and can make a venv with pip in it.
fits() {
  [ -x "$(command -v "$1" 2>/dev/null)" ] || return 1
  "$1" -c 'import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

any_python() {
  # The distribution's Python first: bcc was built beside it.
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10; do
    if fits "$candidate"; then command -v "$candidate"; return; fi
  done
}

install_packages() {
  missing="$(missing_packages)"
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    say "missing from the distribution: $missing"
    say "  mend: as root, apt-get install $missing(Fedora: python3-bcc iproute nftables)"
    return 0
  fi
  say "installing from the distribution: $missing"
  log="$(mktemp)"
  # shellcheck disable=SC2086 # the list is words on purpose
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
    --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    say "could not install $missing; going on without"
    say "  mend: apt-get install $PACKAGES (Ubuntu: python3-bpfcc is in 'universe')"
  fi
  rm -f "$log"
}

make_venv() {
  if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.10 to 3.13 with venv and pip"
    python="$PYTHON"
  else
    python="$(any_python)"
    [ -n "$python" ] || fail "no Python 3.10 to 3.13 that can make a venv" \
      "apt-get install python3-venv, or PYTHON=/path/to/python3 make venv"
  fi
  # A half-made venv (an interrupted set-up) is made anew.
  if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "making .venv with $python ($("$python" -V 2>&1))"
    rm -rf .venv
    "$python" -m venv .venv
  fi
}

install_project() {
  pip=".venv/bin/python -m pip --disable-pip-version-check -q"
  # Dependency groups (PEP 735) need pip 25.1.
  .venv/bin/python -c 'import pip, sys
sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))' ||
    $pip install --upgrade 'pip>=25.1' || fail "pip could not be upgraded" "see the lines above"
  say "installing stallwatch and what it needs${1:+ ($1)}"
  if [ -n "$1" ]; then
    $pip install --editable . --group "$1" || fail "pip install failed" "see the lines above"
  else
    $pip install --editable . || fail "pip install failed" "see the lines above"
  fi
}

link_bcc() {
  folder="$(bcc_folder)"
  site="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  if [ -z "$folder" ]; then
    say "bcc is not installed: eBPF probes stay off, the rest runs"
    return 0
  fi
  # bcc is pure Python over libbcc.so; one link makes the distribution's copy work in any venv.
  ln -sfn "$folder" "$site/bcc"
}

install_torch() {
  .venv/bin/python -c 'import torch' >/dev/null 2>&1 && return 0
  say "installing $TORCH for the end-to-end tests"
  .venv/bin/python -m pip --disable-pip-version-check -q install "$TORCH" ||
    fail "PyTorch could not be installed" "TORCH='torch==VERSION' make e2e"
}

group=""
torch=""
for option in "$@"; do
  case "$option" in
    --dev) group=dev ;;
    --torch) torch=yes ;;
    *) fail "unknown option $option" ;;
  esac
done
stamp=".venv/.set-up${group:+-$group}"
want="$(cat pyproject.toml scripts/setup.sh | cksum)"
install_packages
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$want" ]; then
  make_venv
  install_project "$group"
  printf '%s' "$want" >"$stamp"
fi
link_bcc
[ -z "$torch" ] || install_torch
