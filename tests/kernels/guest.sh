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
export PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
"$python" -m pytest -m each_kernel -p tests.kernels.patience -p no:cacheprovider \
  --override-ini timeout=600 --override-ini junit_family=xunit1 \
  --junitxml="$out/report.xml" -q "$@"
echo "pytest ended with $?, $(cut -d' ' -f1 /proc/uptime) s after boot"
dmesg | grep -i -e 'bpf' -e 'BUG' -e 'WARNING' -e 'Call Trace' >"$out/dmesg"
sync
