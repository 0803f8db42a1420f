#!/bin/sh
# What the probes say of a small CUDA and NCCL job, beside what the job and CUPTI say, and what they
# cost it: on a machine with an NVIDIA GPU, with or without a network, in under five minutes.
#
#   tests/gpu/check.sh [--dry] [--python PYTHON] [--pairs N] [--slice SECONDS] [--settle SECONDS]
#                      [--limit RATIO] [--stand-in LIBRARY]
#
# NOT YET RUN ON A GPU. What could be tried without one is tried in tests/gpu/test_*.py: the
# conversation, the comparison and the measurement, against a compiled stand-in for CUDA.
#
# It needs root, a kernel with uprobes, and:
#   a Python 3.10 to 3.13 with a CUDA build of PyTorch   on the machine (python3, or --python), else
#                                                        from the bundle
#   the probes' Python packages, for that same Python    there, else from the bundle
#   bcc (python3-bpfcc)                                  there, else from the bundle
# The bundle is tests/gpu/bundle/, made beforehand where there is a network: `make gpu-bundle`
# (tests/gpu/bundle.sh --help). Nothing is installed outside of a temporary folder.
#
# --dry: say what is there, what is missing and what would be done; run nothing.
# --stand-in: a libcudart that needs no GPU, in PyTorch's place; to try this script itself.
# Exit status: 0 everything agrees, 1 something does not, 2 it could not run.
set -eu
cd "$(dirname "$0")/../.."
HERE=tests/gpu
BUNDLE="${STALLWATCH_GPU_BUNDLE:-$HERE/bundle}"
# What the probes import (pyproject.toml has the versions), as import names and as package names.
MODULES="numpy pydantic yaml capstone cxxfilt scipy pynvml"

say() { printf '%s\n' "gpu check: $*"; }
missing=""
lacks() { missing="$missing
  - $1
    mend: $2"; }

dry=""
python=""
expects=""
stand_in=""
for option in "$@"; do
  case "$option" in
    --stand-in*) stand_in=yes ;;
    --dry) dry=yes; shift; continue ;;
    --help|-h) sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --python=*) python="${option#*=}"; shift; continue ;;
    --python) expects=python; shift; continue ;;
  esac
  if [ "$expects" = python ]; then python="$option"; expects=""; shift; continue; fi
  shift
  set -- "$@" "$option"
done

works() { "$1" -c 'import sys
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; }
has_torch() { "$1" -c 'import torch, sys
sys.exit(torch.version.cuda is None)' >/dev/null 2>&1; }
fits() { works "$1" && { [ -n "$stand_in" ] || has_torch "$1"; }; }
sees_gpu() { "$1" -c 'import torch, sys
sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; }

work="$(mktemp -d /tmp/stallwatch-gpu-check.XXXXXX)"
trap 'rm -rf "$work"' EXIT
site="$work/site"
mkdir -p "$site"

# The machine.
if [ -n "$stand_in" ]; then
  say "GPU: not asked for"
elif command -v nvidia-smi >/dev/null 2>&1 && gpu="$(nvidia-smi -L 2>/dev/null | head -n 1)" && [ -n "$gpu" ]; then
  say "GPU: $gpu, driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
else
  lacks "no NVIDIA GPU answers (nvidia-smi)" "run this where one does"
fi
say "kernel: $(uname -r), $(nproc) CPUs, user $(id -un)"
[ "$(id -u)" -eq 0 ] || lacks "not root" "sudo $0"
[ -r /sys/bus/event_source/devices/uprobe/type ] || [ -e /sys/kernel/tracing/uprobe_events ] ||
  lacks "this kernel shows no uprobes (gVisor shows none)" "a machine with a Linux kernel of its own"

# A Python with PyTorch: the one asked for, those on the machine, one from the bundle.
if [ -z "$python" ]; then
  for candidate in python3 python3.12 python3.11 python3.13 python3.10 .venv/bin/python /opt/*/.venv/bin/python /opt/*/bin/python; do
    found="$(command -v "$candidate" 2>/dev/null)" || continue
    if fits "$found"; then python="$found"; break; fi
  done
fi
torch_wheels=""
for wheel in "$BUNDLE"/torch/torch-*.whl; do [ -f "$wheel" ] && torch_wheels=yes; done
if [ -z "$python" ] && [ -n "$torch_wheels" ]; then
  for candidate in python3 python3.12 python3.11 python3.13 python3.10; do
    found="$(command -v "$candidate" 2>/dev/null)" || continue
    works "$found" && "$found" -c 'import pip' 2>/dev/null && python="$found" && break
  done
  if [ -n "$python" ] && [ -z "$dry" ]; then
    say "installing PyTorch from the bundle (minutes)"
    "$python" -m pip install -q --no-index --find-links "$BUNDLE/torch" --target "$site" torch ||
      lacks "the bundle's PyTorch does not fit $("$python" -V)" "make gpu-bundle PYTHON_VERSION=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') TORCH=yes"
  fi
fi
if [ -z "$python" ]; then
  lacks "no Python 3.10 to 3.13 with a CUDA build of PyTorch" "--python PATH, or make gpu-bundle TORCH=yes (several GB)"
else
  say "Python: $python ($("$python" -V 2>&1))"
  export PYTHONPATH="$site:$(pwd)"
  if [ -n "$stand_in" ]; then
    say "PyTorch: not asked for"
  elif has_torch "$python"; then
    say "PyTorch: $("$python" -c 'import torch; print(torch.__version__, "CUDA", torch.version.cuda, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))' 2>/dev/null)"
    sees_gpu "$python" || lacks "PyTorch sees no GPU" "does its CUDA fit the driver? nvidia-smi tells the newest CUDA that the driver knows"
  elif [ -n "$dry" ] && [ -n "$torch_wheels" ]; then
    say "PyTorch: would be installed from $BUNDLE/torch"
  else
    lacks "$python has no CUDA build of PyTorch" "--python PATH"
  fi
  # The probes' packages, one by one: what the image has is not replaced.
  for module in $MODULES; do
    "$python" -c "import $module" >/dev/null 2>&1 && continue
    package="$module"
    case "$module" in yaml) package=pyyaml ;; pynvml) package=nvidia-ml-py ;; esac
    if [ -z "$dry" ] && "$python" -m pip install -q --no-index --no-compile --find-links "$BUNDLE/wheels" --target "$site" "$package" >"$work/pip.log" 2>&1; then
      say "from the bundle: $package"
    elif [ -n "$dry" ] && ls "$BUNDLE"/wheels/ 2>/dev/null | grep -qi "^$(printf '%s' "$package" | tr - _)-"; then
      say "would be taken from the bundle: $package"
    else
      lacks "$python cannot import $module" "$python -m pip install $package, or make gpu-bundle PYTHON_VERSION=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    fi
  done
fi

# bcc: the distribution's, else the bundle's, unpacked and found by LD_LIBRARY_PATH.
export STALLWATCH_CHECK_LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
bcc=""
for folder in /usr/lib/python3/dist-packages/bcc /usr/lib/python3*/site-packages/bcc /usr/lib64/python3*/site-packages/bcc; do
  [ -f "$folder/libbcc.py" ] && bcc="$folder" && break
done
if [ -n "$bcc" ]; then
  say "bcc: $bcc"
elif ls "$BUNDLE"/debs/libbpfcc_*.deb >/dev/null 2>&1; then
  if ! command -v dpkg-deb >/dev/null 2>&1; then
    lacks "the bundle's bcc cannot be unpacked: no dpkg-deb" "install bcc from the distribution (python3-bpfcc, python3-bcc)"
  elif [ -n "$dry" ]; then
    say "bcc: would be unpacked from $BUNDLE/debs"
  else
    for package in "$BUNDLE"/debs/*.deb; do dpkg-deb -x "$package" "$work/root"; done
    bcc="$work/root/usr/lib/python3/dist-packages/bcc"
    machine="$(uname -m)-linux-gnu"
    export LD_LIBRARY_PATH="$work/root/usr/lib/$machine:$work/root/lib/$machine${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    say "bcc: from the bundle"
  fi
else
  lacks "bcc is not installed, and the bundle has none" "apt-get install python3-bpfcc, or make gpu-bundle"
fi
[ -z "$bcc" ] || ln -sfn "$bcc" "$site/bcc"
if [ -n "$bcc" ] && [ -n "$python" ] && ! "$python" -W ignore -c 'import bcc; bcc.BPF' >"$work/bcc.log" 2>&1; then
  lacks "bcc cannot be loaded: $(tail -n 1 "$work/bcc.log")" "the bundle's is built for the distribution it was made on; install this machine's own"
fi

if [ -n "$missing" ]; then
  say "missing:$missing"
  [ -n "$dry" ] || exit 2
fi
if [ -n "$dry" ]; then
  say "would run: $python -m tests.gpu.measure $*"
  say "  about 30 s of comparison: calls, errors, bytes and memory of CUDA calls made one by one;"
  say "  100 training steps under torch.profiler; a leak of 1 GiB; 25 collectives of 4 MiB"
  say "  about 4 minutes of overhead: six pairs of 5 s slices with all probes and without, six without twice"
  [ -z "$missing" ] || exit 2
  exit 0
fi
# As long as the job lives in our folder, it must not outlive us.
timeout -k 10 295 "$python" -m tests.gpu.measure --python "$python" "$@" || status=$?
status="${status:-0}"
[ "$status" -ne 124 ] || { say "it took longer than five minutes and was ended"; status=2; }
exit "$status"
