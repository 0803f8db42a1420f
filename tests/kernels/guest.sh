#!/bin/sh
# Runs in the booted machine: guest.sh OUT PYTHON TEST-FILE...
# What it prints and what the tests came to go to OUT, the one folder that the host sees.
out="$1" python="$2"
shift 2
exec >"$out/log" 2>&1
uname -r >"$out/release"
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
ip link set lo up

# The kernel's own headers, as a node that has them has them.
modules="$(readlink -f "/lib/modules/$(uname -r)")"
for src in "$modules/../../../usr/src" "$modules/../../../src"; do
  if [ -d "$src" ]; then mount --bind "$src" /usr/src; fi
done

# What tests read most, from an image instead of over 9p (image.py).
mkdir -p /run/warm
modprobe -a virtio_blk ext4
if mount -o ro /dev/vda /run/warm; then
  while read -r path; do mount --bind "/run/warm$path" "$path"; done </run/warm/mounts
  for each in /run/warm/tree/*; do mount --bind "$each" "${each##*/}"; done
fi
echo "ready $(cut -d' ' -f1 /proc/uptime) s after boot"

# Tests compile their stand-ins on the host (remote_gcc.py).
mkdir -p /run/compilers
for each in gcc g++; do
  command -v "$each" >/dev/null || continue
  printf '#!/bin/sh\nexec "%s" -I -S "%s" %s "$@"\n' \
    "$python" "$PWD/tests/kernels/remote_gcc.py" "$each" >"/run/compilers/$each"
  chmod +x "/run/compilers/$each"
done
export PATH="/run/compilers:$PATH"

export PYTHONDONTWRITEBYTECODE=1 HOME=/tmp STALLWATCH_KERNEL_REQUESTS="$out/requests"
export STALLWATCH_KERNEL_REPORT="$out/report"
"$python" -m pytest -v -m each_kernel -p tests.kernels.emulated -p tests.kernels.reporting \
  -p no:cacheprovider --basetemp="${out%/*}/tests" --override-ini timeout=600 \
  --durations=20 --tb=short "$@"
echo "pytest ended with $?, $(cut -d' ' -f1 /proc/uptime) s after boot"
dmesg | grep -i -e 'bpf' -e 'BUG' -e 'WARNING' -e 'Call Trace' >"$out/dmesg"
sync
