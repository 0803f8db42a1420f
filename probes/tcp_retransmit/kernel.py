"""The kernel half: attaching, and reading what the program counted."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf.errors import UnavailableError
from probes.bpf.loader import ProgramType, load
from probes.tcp_retransmit.flow import Flow, Kind, Record, User, decode_flow, decode_record
from probes.tcp_retransmit.growth import Growing
from probes.tcp_retransmit.layouts import read_layouts
from probes.tcp_retransmit.sockdiag import decode_endpoints
from probes.tcp_retransmit.tallies import Tally, decode_key

if TYPE_CHECKING:
    from engine.readings import MapUse
    from probes.bpf.loader import BpfObject
    from probes.tcp_retransmit.limits import Limits

_SOURCE = Path(__file__).with_name("program.bpf.c")
# A connect that ended by an error is explained at once; what is older was given up.
_EXPLAINED_WITHIN_NS = 1_000_000_000

# Raw tracepoint arguments are u64 each: sock, skb, err (include/trace/events/tcp.h).
_RAW_ERR_OFFSET = 16
_RAW = {"on_attempt": "tcp_retransmit_skb", "on_exit": "sched_process_exit"}
# The order of the enums in program.bpf.c.
STREAMS = ("", "events", "connections")
LOSSES = (
    ("", "map_full"),
    ("events", "ring_full"),
    ("owners", "map_full"),
    ("processes", "map_full"),
    ("connections", "map_full"),
    ("connections", "connecting_full"),
    ("connections", "unexplained_full"),
    ("probes", "map_full"),
    ("segments", "map_full"),
)
_UNEXPLAINED = struct.Struct("=QQQII")
_OWNER = struct.Struct("=QII")


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
        layouts = read_layouts()
        self.notes = layouts.notes
        self._programs = sorted(layouts.points.values())
        defines = limits.defines() | layouts.defines | {"RAW_ERR_OFFSET": _RAW_ERR_OFFSET}
        kinds = dict.fromkeys(self._programs, ProgramType.TRACEPOINT)
        kinds |= dict.fromkeys(_RAW, ProgramType.RAW_TRACEPOINT)
        self._bpf: BpfObject = load(_SOURCE, kinds, defines)
        self._skips = Skips()
        try:
            self._records = self._bpf.events("records", limits.ring_pages_rounded)
            self._flows = Growing(self._bpf.map("flows"))
            self._tallies = Growing(self._bpf.map("tallies"))
            self._bpf.attach_raw_tracepoint("on_exit", _RAW["on_exit"])
            for (category, event), program in layouts.points.items():
                self._bpf.attach_tracepoint(program, category, event)
            # Last, so that nothing is produced before there is somebody to take it.
            self._bpf.attach_raw_tracepoint("on_attempt", _RAW["on_attempt"])
        except UnavailableError:
            self._bpf.close()
            raise

    def processes(self) -> list[tuple[int, int]]:
        """(pid, monotonic ns of its newest socket) of processes seen to use TCP."""
        return [
            (struct.unpack("=I", key)[0], struct.unpack("=QQ", value)[1])
            for key, value in self._bpf.map("processes").items()
        ]

    def forget_process(self, pid: int) -> None:
        """Make room: the process has ended."""
        self._bpf.map("processes").delete(struct.pack("=I", pid))

    def records(self) -> list[Record]:
        """What happened since the last call, the oldest first per CPU."""
        return [decode_record(raw) for raw in self._records.drain()]

    def hits(self) -> list[tuple[Flow, int, int]]:
        """(flow, retransmits since the last call, how many of them were tail-loss probes)."""
        return [(decode_flow(key), every, probes) for key, every, probes in self._flows.drain()]

    def tallies(self) -> list[Tally]:
        """Connects, failures and resets since the last call."""
        return [
            Tally(*decode_key(key), count, nanoseconds / 1e9)
            for key, count, nanoseconds in self._tallies.drain()
        ]

    def abandoned(self, now_ns: int) -> list[Record]:
        """Connects that ended without an error: the process closed the socket before an answer."""
        unexplained = self._bpf.map("unexplained")
        found = []
        for key, value in unexplained.items():
            at, socket, since, pid, _ = _UNEXPLAINED.unpack(value)
            if now_ns - at >= _EXPLAINED_WITHIN_NS and unexplained.delete(key):
                found.append(_abandoned(key, at, socket, User(pid, since)))
        return found

    def closed_by(self, endpoints: bytes) -> User | None:
        """Who used a connection that has closed a moment ago; it can be asked once."""
        raw = self._bpf.map("closed_flows").take(endpoints)
        if raw is None:
            return None
        since, pid, _ = _OWNER.unpack(raw)
        return User(pid, since)

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
            *(((stream, "skipped"), self._skips.total) for stream in STREAMS[:2]),
            (("", "recursion_misses"), hits),
            (("owners", "recursion_misses"), sum(misses.values())),
        )

    def map_use(self) -> tuple[MapUse, ...]:
        """How full the kernel maps are."""
        return self._bpf.map_use()

    def close(self) -> None:
        """Detach and free."""
        self._bpf.close()


def _abandoned(key: bytes, at_ns: int, socket: int, user: User) -> Record:
    """A record like the kernel's own, from an entry of `unexplained`."""
    flow = Flow(socket, user, decode_endpoints(key))
    return Record(at_ns, Kind.CONNECT_FAILED, 0, flow)
