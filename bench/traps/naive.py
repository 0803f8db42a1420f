"""What a first bcc script does: a uprobe and a uretprobe, each event through a perf buffer.

    python naive.py LIBRARY FUNCTION

Prints "ready" when it is attached, and at SIGTERM how many events came and were lost. Needs no
kernel headers: BCC_KERNEL_SOURCE is set to ours by the caller.
"""

from __future__ import annotations

import signal
import sys
import warnings

PROGRAM = """
struct event { u64 time; u32 tid; u32 leaves; };
BPF_PERF_OUTPUT(events);
static int tell(void *ctx, u32 leaves)
{
	struct event event = {};

	event.time = bpf_ktime_get_ns();
	event.tid = bpf_get_current_pid_tgid();
	event.leaves = leaves;
	events.perf_submit(ctx, &event, sizeof(event));
	return 0;
}
int enter(struct pt_regs *ctx) { return tell(ctx, 0); }
int leave(struct pt_regs *ctx) { return tell(ctx, 1); }
"""


def main() -> int:
    """Attach, count until SIGTERM."""
    library, function = sys.argv[1:]
    warnings.simplefilter("ignore")
    from bcc import BPF

    counts = {"events": 0, "lost": 0, "go": 1}

    def count(*_: object) -> None:
        counts["events"] += 1

    def lose(missed: int) -> None:
        counts["lost"] += missed

    def stop(*_: object) -> None:
        counts["go"] = 0

    signal.signal(signal.SIGTERM, stop)
    bpf = BPF(text=PROGRAM)
    bpf.attach_uprobe(name=library, sym=function, fn_name="enter")
    bpf.attach_uretprobe(name=library, sym=function, fn_name="leave")
    bpf["events"].open_perf_buffer(count, lost_cb=lose)
    print("ready", flush=True)
    while counts["go"]:
        bpf.perf_buffer_poll(200)
    print(counts["events"], counts["lost"], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
