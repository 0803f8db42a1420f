"""A bcc tool as small as they come: tells each retransmit, as tcpretrans(8) of bcc-tools does.

Through the tracepoint, since a kernel need not have kprobes. Prints "ready" when it is attached.
"""

from __future__ import annotations

import sys
import warnings

PROGRAM = """
struct event { u64 time; u16 sport; u16 dport; };
BPF_PERF_OUTPUT(events);
TRACEPOINT_PROBE(tcp, tcp_retransmit_skb)
{
	struct event event = {};

	event.time = bpf_ktime_get_ns();
	event.sport = args->sport;
	event.dport = args->dport;
	events.perf_submit(args, &event, sizeof(event));
	return 0;
}
"""


def main() -> int:
    """Attach and tell until it is killed."""
    warnings.simplefilter("ignore")
    from bcc import BPF

    bpf = BPF(text=PROGRAM)

    def tell(_cpu: int, data: object, _size: int) -> None:
        event = bpf["events"].event(data)
        print(event.time, event.sport, event.dport, flush=True)

    bpf["events"].open_perf_buffer(tell)
    print("ready", flush=True)
    while True:
        bpf.perf_buffer_poll()


if __name__ == "__main__":
    sys.exit(main())
