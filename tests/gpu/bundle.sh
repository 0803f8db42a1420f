#!/bin/sh
# Fetch what tests/gpu/check.sh needs on a machine without a network, into tests/gpu/bundle/:
#
#   wheels/  the probes' Python packages, for PYTHON_VERSION (3.12) on this kind of processor
#   debs/    bcc and the libraries that it needs, of this machine's Debian or Ubuntu
#   torch/   a CUDA build of PyTorch, only with TORCH=yes: several GB, and not needed where the
#            machine's own Python has one
#
#   [PYTHON_VERSION=3.12] [TORCH=yes] [TORCH_INDEX=URL] tests/gpu/bundle.sh
#
# Without PyTorch it is about 60 MB. The other machine's C library must be as new as this one's.
set -eu
cd "$(dirname "$0")"
case "${1:-}" in --help|-h) sed -n '2,/^set -eu/s/^# \{0,1\}//p' bundle.sh; exit 0 ;; esac
VERSION="${PYTHON_VERSION:-3.12}"
PIP="${PIP:-$([ -x ../../.venv/bin/python ] && echo ../../.venv/bin/python || echo python3) -m pip --disable-pip-version-check}"
say() { printf '%s\n' "gpu bundle: $*"; }

mkdir -p bundle/wheels bundle/debs
machine="$(uname -m)"
platforms=""
for minor in 39 35 34 31 28 27 26 24 17 12 5; do platforms="$platforms --platform manylinux_2_${minor}_$machine"; done
platforms="$platforms --platform manylinux2014_$machine --platform manylinux2010_$machine --platform manylinux1_$machine"
# With what they need themselves. numpy and scipy are left out: an image with PyTorch has them.
say "wheels for Python $VERSION"
# shellcheck disable=SC2086 # words on purpose
$PIP download -q --no-deps --only-binary :all: --python-version "$VERSION" --implementation cp $platforms \
  -d bundle/wheels pydantic annotated-types typing-extensions typing-inspection pyyaml capstone nvidia-ml-py
# pydantic asks for its core by exact version.
core="$(unzip -p bundle/wheels/pydantic-[0-9]*.whl '*/METADATA' | sed -n 's/^Requires-Dist: pydantic-core *(*\(==[0-9.]*\).*/\1/p')"
# shellcheck disable=SC2086
$PIP download -q --no-deps --only-binary :all: --python-version "$VERSION" --implementation cp $platforms \
  -d bundle/wheels "pydantic-core$core"
# Source only, pure Python.
$PIP wheel -q --no-deps -w bundle/wheels cxxfilt

if command -v apt-get >/dev/null 2>&1; then
  say "bcc and its libraries"
  # What libbcc loads, down to the C library, which stays the other machine's own.
  packages="$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
    libbpfcc | grep '^[a-z]' | grep -Ev '^(libc6|libgcc-s1|gcc-[0-9]+-base|libstdc\+\+6|libcrypt1|debconf|libdebuginfod|libcurl|libgnutls|perl|dpkg|tar|install-info|init-system|media-types|netbase|readline-common)' | sort -u)"
  # shellcheck disable=SC2086
  (cd bundle/debs && apt-get download -q python3-bpfcc $packages >/dev/null)
else
  say "no apt-get here: install bcc on the other machine from its distribution"
fi

if [ "${TORCH:-}" = yes ]; then
  say "PyTorch with CUDA for Python $VERSION (several GB)"
  mkdir -p bundle/torch
  # shellcheck disable=SC2086
  $PIP download -q --only-binary :all: --python-version "$VERSION" --implementation cp $platforms \
    ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -d bundle/torch torch
fi
say "$(du -sh bundle | cut -f1) in $(pwd)/bundle"
