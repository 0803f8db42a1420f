#!/bin/sh
# Runs in the booted machine: guest.sh OUT PYTHON TEST-FILE...
# What it prints and pytest's report go to OUT, the one folder that the host sees.
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
  while read -r path; do mount --bind "/run/warm$path" "$path"; done <"$out/../mounts"
fi
echo "ready $(cut -d' ' -f1 /proc/uptime) s after boot"

export PYTHONDONTWRITEBYTECODE=1 HOME=/tmp STALLWATCH_KERNEL_REQUESTS="$out/requests"
"$python" -m pytest -v -m each_kernel -p tests.kernels.emulated -p no:cacheprovider \
  --override-ini timeout=600 --override-ini junit_family=xunit1 --durations=5 --tb=short \
  --junitxml="$out/report.xml" "$@"
echo "pytest ended with $?, $(cut -d' ' -f1 /proc/uptime) s after boot"
dmesg | grep -i -e 'bpf' -e 'BUG' -e 'WARNING' -e 'Call Trace' >"$out/dmesg"
sync
