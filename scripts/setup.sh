#!/bin/sh
# Make .venv: a Python that fits, this project and what it needs, and the distribution's bcc.
#
#   scripts/setup.sh [--dev] [--torch] [--kernels]
#
# As root on Debian or Ubuntu it first installs what is missing from the distribution. Without root
# it says what to install and goes on with what can run. PYTHON=/path/to/python3 picks the Python.
set -eu
cd "$(dirname "$0")/.."

PACKAGES="python3-bpfcc python3-venv iproute2 nftables"
TORCH="${TORCH:-torch==2.13.0}"
VIRTME="virtme-ng>=1.40"
# Where the system's Python and its bcc are; the tests set up in a made-up system.
SYSTEM="${STALLWATCH_SETUP_SYSTEM:-/usr}"
LOG=.venv/set-up.log
# What the caller's Python and pip are told (another path, --user, a target) is not for this venv.
unset PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
# An ordinary user's PATH may lack the folders of ip and nft.
PATH="$PATH:/usr/sbin:/sbin"

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$1"; [ $# -lt 2 ] || say "  mend: $2"; exit 2; }

bcc_folder() {
  for folder in "$SYSTEM"/lib/python3/dist-packages/bcc "$SYSTEM"/lib/python3*/site-packages/bcc \
    "$SYSTEM"/lib64/python3*/site-packages/bcc; do
    if [ -f "$folder/libbcc.py" ]; then printf '%s' "$folder"; return; fi
  done
}

missing_packages() {
  [ -n "$(bcc_folder)" ] || printf 'python3-bpfcc '
  # Debian splits venv from Python; a Python of the user's own brings it along.
  [ -n "${PYTHON:-}" ] || [ -n "$(any_python)" ] || printf 'python3-venv '
  command -v ip >/dev/null 2>&1 || printf 'iproute2 '
  command -v nft >/dev/null 2>&1 || printf 'nftables '
  [ -z "$torch" ] || missing_beside_jobs
  [ -z "$kernels" ] || missing_for_kernels
}

# Tools that look into the jobs of the end-to-end tests, beside the agent.
missing_beside_jobs() {
  command -v gdb >/dev/null 2>&1 || printf 'gdb '
  command -v strace >/dev/null 2>&1 || printf 'strace '
  command -v bpftrace >/dev/null 2>&1 || printf 'bpftrace '
  # Ubuntu's is in linux-tools-generic, for its own kernels alone.
  command -v perf >/dev/null 2>&1 || printf 'linux-perf '
}

# What our delivery is compared with. Its package starts a service, now and on every boot, and only
# the program is wanted: a policy keeps the service down, which then is switched off.
install_alertmanager() {
  ! command -v prometheus-alertmanager >/dev/null 2>&1 || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    say "Alertmanager is not installed: the delivery is not compared with it"
    say "  mend: as root, apt-get install prometheus-alertmanager"
    return 0
  fi
  policy=""
  if [ ! -e "$SYSTEM/sbin/policy-rc.d" ]; then
    policy="$SYSTEM/sbin/policy-rc.d"
    trap 'rm -f "$policy"' EXIT
    trap 'exit 2' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  say "installing prometheus-alertmanager, its service stays off"
  log="$(mktemp)"
  missing="prometheus-alertmanager "
  apt install -y --no-install-recommends $missing || { apt update; install_one_by_one; }
  rm -f "$log"
  if [ -n "$policy" ]; then
    rm -f "$policy"
    deb-systemd-helper disable prometheus-alertmanager.service >/dev/null 2>&1 || true
    update-rc.d prometheus-alertmanager disable >/dev/null 2>&1 || true
  fi
}

# What boots another kernel in emulation.
missing_for_kernels() {
  command -v qemu-system-x86_64 >/dev/null 2>&1 || printf 'qemu-system-x86 '
  command -v busybox >/dev/null 2>&1 || printf 'busybox-static '
  command -v depmod >/dev/null 2>&1 || printf 'kmod '
  command -v mke2fs >/dev/null 2>&1 || printf 'e2fsprogs '
}

# A Python fits when it is 3.10 to 3.13 and can make a venv with pip in it.
fits() {
  [ -x "$(command -v "$1" 2>/dev/null)" ] || return 1
  "$1" -c 'import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

any_python() {
  # The distribution's Python first: bcc was built beside it.
  for candidate in "$SYSTEM/bin/python3" python3 python3.13 python3.12 python3.11 python3.10; do
    if fits "$candidate"; then command -v "$candidate"; return; fi
  done
}

# A machine that has just booted may still be upgrading itself: wait for its lock.
apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" </dev/null >>"$log" 2>&1
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
  # One dead third-party source must not keep the others from being read.
  apt update || say "apt-get update failed, going on with the lists that are there"
  # shellcheck disable=SC2086 # the list is words on purpose
  apt install -y --no-install-recommends $missing || install_one_by_one
  rm -f "$log"
}

# One package that this distribution lacks must not keep the others away.
install_one_by_one() {
  refused=""
  for package in $missing; do
    apt install -y --no-install-recommends "$package" || refused="$refused$package "
  done
  [ -n "$refused" ] || return 0
  if [ "$refused" = "$missing" ] && grep -q 'Failed to fetch' "$log"; then
    say "could not install ${refused% }: the distribution's package sources cannot be reached"
    say "  mend: a way to them (a proxy: Acquire::http::Proxy in /etc/apt/apt.conf.d)"
  else
    say "could not install ${refused% }, going on without: $(last_error "$log")"
    say "  mend: apt-get install ${refused% } (on Ubuntu some are in 'universe')"
  fi
}

last_error() { grep -E '^(E|ERROR|error|fatal)[: ]' "$1" | tail -n 1; }

# .venv is there, its Python starts, and its scripts were made for this folder: not moved, not copied.
usable() {
  [ -x .venv/bin/python ] && grep -qF "$(pwd -P)/.venv" .venv/bin/activate 2>/dev/null &&
    .venv/bin/python -c 'import pip' >/dev/null 2>&1
}

make_venv() {
  # Half-made (an interrupted set-up), or its Python has gone (an upgrade): made anew.
  if usable && .venv/bin/python -m pip --version >/dev/null 2>&1; then return 0; fi
  if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.10 to 3.13 with venv and pip"
    python="$PYTHON"
  else
    python="$(any_python)"
    [ -n "$python" ] || fail "no Python 3.10 to 3.13 that can make a venv" \
      "apt-get install python3-venv, or PYTHON=/path/to/python3 make venv"
  fi
  say "making .venv with $python ($("$python" -V 2>&1))"
  rm -rf .venv
  "$python" -m venv .venv || fail "$python could not make .venv" "see the lines above"
}

# pip with its chatter in a file, so that a failure is one line and not its retries.
pip() {
  what="$1"
  shift
  if ! .venv/bin/python -m pip --disable-pip-version-check "$@" >"$LOG" 2>&1; then
    grep -q CERTIFICATE_VERIFY_FAILED "$LOG" &&
      fail "$what: the Python package index shows a certificate that is not trusted" \
        "PIP_CERT=/path/to/authorities.pem (a proxy in between?); $LOG has all of it"
    grep -q -e 'connection broken' -e 'NewConnectionError' -e 'resolve' "$LOG" &&
      fail "$what: the Python package index cannot be reached ($LOG has all of it)" \
        "a way to it: HTTPS_PROXY=..., or a mirror by PIP_INDEX_URL=..."
    fail "$what: $(last_error "$LOG")" "$LOG has all of it"
  fi
}

install_project() {
  # Dependency groups (PEP 735) need pip 25.1.
  .venv/bin/python -c 'import pip, sys
sys.exit(tuple(map(int, pip.__version__.split(".")[:2])) < (25, 1))' ||
    pip "pip could not be upgraded" install --upgrade 'pip>=25.1'
  say "installing stallwatch and what it needs${1:+ ($1)}"
  pip "stallwatch could not be installed" install --editable . ${1:+--group "$1"}
}

# Not compiled, our modules take as long again to start, each time: Python itself leaves it where
# PYTHONDONTWRITEBYTECODE is set, or where the tree belongs to somebody else.
compile() {
  sources="engine notifiers probes rules"
  # shellcheck disable=SC2086 # the list is words on purpose
  if [ -f "$1" ] && [ -z "$(find $sources -name '*.py' -newer "$1" 2>/dev/null)" ]; then return; fi
  : >"$1"
  # shellcheck disable=SC2086 # same
  .venv/bin/python -m compileall -q $sources >/dev/null 2>&1 || true
}

link_bcc() {
  folder="$(bcc_folder)"
  if [ -z "$folder" ]; then
    say "bcc is not installed: eBPF probes stay off, the rest runs"
    return 0
  fi
  # bcc is pure Python over libbcc.so; one link makes the distribution's copy work in any venv.
  site="$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  ln -sfn "$folder" "$site/bcc"
}

install_torch() {
  .venv/bin/python -c 'import torch' >/dev/null 2>&1 && return 0
  say "installing $TORCH for the end-to-end tests"
  pip "PyTorch could not be installed (TORCH='torch==VERSION' picks another)" install "$TORCH"
}

install_virtme() {
  .venv/bin/python -c 'import virtme' >/dev/null 2>&1 && return 0
  say "installing $VIRTME to boot other kernels"
  pip "virtme-ng could not be installed" install "$VIRTME"
}

group=""
torch=""
kernels=""
for option in "$@"; do
  case "$option" in
    --dev) group=dev ;;
    --torch) torch=yes ;;
    --kernels) kernels=yes ;;
    *) fail "unknown option $option" "scripts/setup.sh [--dev] [--torch] [--kernels]" ;;
  esac
done
stamp=".venv/.set-up${group:+-$group}"
want="$(cat pyproject.toml scripts/setup.sh | cksum)"
stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$want" ]; }
install_packages
[ -z "$torch" ] || install_alertmanager
# What the tests need has what the agent needs.
if ! usable || ! { stamped "$stamp" || stamped .venv/.set-up-dev; }; then
  make_venv
  install_project "$group"
  printf '%s' "$want" >"$stamp"
fi
compile .venv/.compiled
link_bcc
[ -z "$torch" ] || install_torch
[ -z "$kernels" ] || install_virtme
