"""The kernel half: layouts, attaching, and reading what the program counted."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType, load
from probes.bpf.tracepoint import read_format
from probes.tcp_retransmit.flow import decode_flow, decode_record

if TYPE_CHECKING:
    from probes.bpf.loader import BpfObject
    from probes.bpf.tracepoint import Format
    from probes.tcp_retransmit.flow import Flow
    from probes.tcp_retransmit.limits import Limits

_SOURCE = Path(__file__).with_name("program.bpf.c")
_SKB_FIELDS = ("skaddr", "sport", "dport", "saddr_v6", "daddr_v6")
_STATE_FIELDS = ("skaddr", "oldstate", "newstate", "protocol")
_SEND_FIELDS = ("sk", "protocol", "ret")
_IDLE_DRAINS = 3


# Raw tracepoint arguments are u64 each: sock, skb, err (include/trace/events/tcp.h).
_RAW_ERR_OFFSET = 16
# The order of the enums in program.bpf.c.
STREAMS = ("", "events")
LOSSES = (
    ("", "map_full"),
    ("events", "ring_full"),
    ("owners", "map_full"),
    ("processes", "map_full"),
)


@dataclass(slots=True)
class Skips:
    """Hits for which the counting program did not run: `total`, which never falls.

    Both counters are read one after the other, so a hit in between looks like a skip for one
    reading. What two readings agree on is real.
    """

    total: int = 0
    _before: int = 0

    def see(self, hits: int, runs: int) -> None:
        """Compare one reading of both counters."""
        now = hits - runs
        self.total = max(self.total, min(now, self._before))
        self._before = now


class RetransmitProgram:
    """The loaded program. `notes`: what this kernel lacks and how it is made up for."""

    def __init__(self, limits: Limits) -> None:
        """Load and attach. Raises UnavailableError."""
        self.notes: list[str] = []
        defines = limits.defines()
        retransmit = read_format("tcp", "tcp_retransmit_skb")
        retransmit.require(*_SKB_FIELDS)
        defines |= retransmit.defines("SKB", (*_SKB_FIELDS, "err"))
        points = {("tcp", "tcp_retransmit_skb"): "on_retransmit"}
        defines |= self._state(points) | self._send(points)
        self._programs = sorted(set(points.values()))
        defines |= {"RAW_ERR_OFFSET": _RAW_ERR_OFFSET}
        kinds = dict.fromkeys(self._programs, ProgramType.TRACEPOINT)
        self._bpf: BpfObject = load(
            _SOURCE, kinds | {"on_attempt": ProgramType.RAW_TRACEPOINT}, defines
        )
        self._skips = Skips()
        self._seen: dict[bytes, tuple[int, int]] = {}
        try:
            self._records = self._bpf.events("records", limits.ring_pages_rounded)
            for (category, event), program in points.items():
                self._bpf.attach_tracepoint(program, category, event)
            # Last, so that nothing is produced before there is somebody to take it.
            self._bpf.attach_raw_tracepoint("on_attempt", "tcp_retransmit_skb")
        except UnavailableError:
            self._bpf.close()
            raise

    def _state(self, points: dict[tuple[str, str], str]) -> dict[str, int]:
        state = _format_or_none("sock", "inet_sock_set_state", _STATE_FIELDS)
        if state is None:
            self.notes.append("no sock:inet_sock_set_state: owners through sock_diag only")
            return {}
        points["sock", "inet_sock_set_state"] = "on_state"
        return state.defines("STATE", _STATE_FIELDS)

    def _send(self, points: dict[tuple[str, str], str]) -> dict[str, int]:
        """Sends teach who owns an accepted socket; receives would only double the cost.

        A socket that never sends has nothing to retransmit but its FIN.
        """
        if "on_state" not in points.values():
            return {}  # without it nothing would ever forget a socket
        send = _format_or_none("sock", "sock_send_length", _SEND_FIELDS)
        if send is None:
            self.notes.append("no sock:sock_send_length: accepted sockets through sock_diag")
            return {}
        points["sock", "sock_send_length"] = "on_send"
        return send.defines("SEND", _SEND_FIELDS)

    def processes(self) -> list[tuple[int, int]]:
        """(pid, monotonic ns of its newest socket) of processes seen to use TCP."""
        return [
            (struct.unpack("=I", key)[0], struct.unpack("=Q", value)[0])
            for key, value in self._bpf.map("processes").items()
        ]

    def forget_process(self, pid: int) -> None:
        """Make room: the process has ended."""
        self._bpf.map("processes").delete(struct.pack("=I", pid))

    def records(self) -> list[tuple[int, Flow]]:
        """(monotonic ns, flow) of each retransmit since the last call."""
        return [decode_record(raw) for raw in self._records.drain()]

    def hits(self) -> list[tuple[Flow, int]]:
        """Flows and by how much each grew since the last call.

        The kernel's counts only ever grow, so no hit is lost between reading and resetting; a
        flow that has been still for three drains is taken out.
        """
        flows = self._bpf.map("flows")
        grown: list[tuple[Flow, int]] = []
        seen: dict[bytes, tuple[int, int]] = {}
        for key, value in flows.items():
            before, still = self._seen.get(key, (0, 0))
            total = int(struct.unpack("=Q", value)[0])
            still = still + 1 if total == before else 0
            if still >= _IDLE_DRAINS:
                last = flows.take(key)
                total = before if last is None else int(struct.unpack("=Q", last)[0])
            else:
                seen[key] = (total, still)
            if total != before:
                grown.append((decode_flow(key), total - before))
        self._seen = seen
        return grown

    def produced(self) -> tuple[tuple[str, int], ...]:
        """By stream."""
        *streams, runs = self._bpf.produced()
        self._skips.see(streams[0], runs)
        return tuple(zip(STREAMS, streams, strict=True))

    def lost(self) -> tuple[tuple[tuple[str, str], int], ...]:
        """By stream and reason."""
        misses = {name: self._bpf.recursion_misses(name) for name in self._programs}
        hits = misses.pop("on_retransmit")
        losses = zip(LOSSES, self._bpf.lost(), strict=True)
        return (
            *losses,
            *(((stream, "skipped"), self._skips.total) for stream in STREAMS),
            (("", "recursion_misses"), hits),
            (("owners", "recursion_misses"), sum(misses.values())),
        )

    def close(self) -> None:
        """Detach and free."""
        self._bpf.close()


def _format_or_none(category: str, event: str, names: tuple[str, ...]) -> Format | None:
    try:
        found = read_format(category, event)
        found.require(*names)
    except UnavailableError as error:
        if error.reason != "no_tracepoint":
            raise
        return None
    return found
