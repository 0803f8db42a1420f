"""The kernel half: layouts, attaching, and reading what the program counted."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load
from probes.bpf.tracepoint import read_format
from probes.process.ending import decode_ending, is_certain

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import MapUse
    from probes.bpf.events import EventReader
    from probes.process.ending import Ending
    from probes.process.limits import ProcessSettings

_SOURCE = Path(__file__).with_name("program.bpf.c")
# The order of the enums in program.bpf.c.
STREAMS = ("", "ends")
LOSSES = (("", "map_full"), ("ends", "map_full"), ("ends", "ring_full"))
_DELIVER_FIELDS = ("sig", "sa_handler")
_GENERATE_FIELDS = ("sig", "pid", "result")


class ProcessProgram:
    """The loaded program. `lacking`: why ends by a signal cannot be seen here, if so."""

    def __init__(self, settings: ProcessSettings) -> None:
        """Load and attach. Raises UnavailableError."""
        self.lacking: UnavailableError | None = None
        self._ends: EventReader | None = None
        points = {("sched", "sched_process_exec"): "on_exec"}
        try:
            defines = _layouts(points)
        except UnavailableError as error:
            self.lacking = error
            self._load_raw(settings)
            return
        kinds = dict.fromkeys(points.values(), ProgramType.TRACEPOINT)
        self._programs = list(kinds)
        self._bpf: BpfObject = load(_SOURCE, kinds, settings.defines(ends=True) | defines)
        try:
            self._ends = self._bpf.events("ends", settings.defines(ends=True)["RING_PAGES"])
            for (category, event), program in points.items():
                self._bpf.attach_tracepoint(program, category, event)
        except UnavailableError:
            self._bpf.close()
            raise

    def _load_raw(self, settings: ProcessSettings) -> None:
        """Without tracefs: the raw tracepoint of the same name needs no layout."""
        self._programs = ["on_exec"]
        kinds = {"on_exec": ProgramType.RAW_TRACEPOINT}
        self._bpf = load(_SOURCE, kinds, settings.defines(ends=False))
        try:
            self._bpf.attach_raw_tracepoint("on_exec", "sched_process_exec")
        except UnavailableError:
            self._bpf.close()
            raise

    def produced(self) -> tuple[tuple[str, int], ...]:
        """Program starts and ends so far, by stream."""
        return tuple(zip(STREAMS, self._bpf.produced(), strict=True))

    def lost(self) -> tuple[tuple[tuple[str, str], int], ...]:
        """What was lost so far, by stream and reason."""
        misses = {name: self._bpf.recursion_misses(name) for name in self._programs}
        execs = misses.pop("on_exec")
        return (
            *zip(LOSSES, self._bpf.lost(), strict=True),
            (("", "recursion_misses"), execs),
            (("ends", "recursion_misses"), sum(misses.values())),
        )

    def take_execs(self) -> dict[int, int]:
        """Program starts by control group since the last call."""
        execs = self._bpf.map("execs")
        taken = {key: execs.take(key) for key in execs.keys()}  # noqa: SIM118 - no mapping
        return {
            struct.unpack("=Q", key)[0]: struct.unpack("=Q", value)[0]
            for key, value in taken.items()
            if value is not None
        }

    def drain(self) -> list[Ending]:
        """Ends since the last call."""
        return [] if self._ends is None else [decode_ending(each) for each in self._ends.drain()]

    def sweep(self, gone: Callable[[int], bool]) -> list[Ending]:
        """Ends of processes whose leader had gone before its other threads.

        They are not in `produced`, which is counted at the leader's exit.
        """
        if self._ends is None:
            return []
        fatal = self._bpf.map("fatal")
        found = []
        for key in fatal.keys():  # noqa: SIM118 - no mapping
            (pid,) = struct.unpack("=I", key)
            value = fatal.take(key) if gone(pid) else None
            if value is not None and is_certain(value):
                found.append(decode_ending(value[:12] + key + value[16:]))
        return found

    def map_use(self) -> tuple[MapUse, ...]:
        """How full the kernel maps are."""
        return self._bpf.map_use()

    def close(self) -> None:
        """Detach and free."""
        self._bpf.close()


def _layouts(points: dict[tuple[str, str], str]) -> dict[str, int]:
    """Offsets for the program; `points` gets what is to be attached. Raises UnavailableError."""
    deliver, generate = (
        read_format("signal", "signal_deliver"),
        read_format("signal", "signal_generate"),
    )
    deliver.require(*_DELIVER_FIELDS)
    generate.require(*_GENERATE_FIELDS)
    points["signal", "signal_deliver"] = "on_deliver"
    points["signal", "signal_generate"] = "on_generate"
    points["sched", "sched_process_exit"] = "on_exit"
    defines = deliver.defines("DELIVER", _DELIVER_FIELDS)
    defines |= generate.defines("GENERATE", _GENERATE_FIELDS)
    victim = read_format("oom", "mark_victim")
    victim.require("pid")
    points["oom", "mark_victim"] = "on_victim"
    return defines | victim.defines("VICTIM", ("pid",))
