"""What the calls of a user's functions mean: the user's metrics."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.readings import ProbeStatus, Watched
from probes.custom.readings import counts, first, levels, own_labels, slow_event
from probes.functions.files import near_names
from probes.functions.reporting import Report
from probes.libraries.maps import LibraryNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.readings import Event, Level, Pairs, Process, Reading
    from probes.custom.settings import ProbeConfig
    from probes.custom.slots import Plan, Slot
    from probes.functions.followed import Followed
    from probes.functions.totals import Look, SlowCall


class CustomReport(Report):
    """Gives the program its rules. Raises UnavailableError."""

    metric = "custom_calls"

    def __init__(self, followed: Followed, *, probes: Sequence[ProbeConfig], plan: Plan) -> None:
        self._followed = followed
        self._probes = probes
        self._slots = {slot.name: slot for slot in plan.slots}
        self._libraries = {each.name: LibraryNames(each.library) for each in probes}
        self._last: dict[tuple[Process, str], int] = {}
        self._near: dict[str, tuple[str, ...]] = {}
        for number, rule in enumerate(plan.rules):
            followed.bpf.map("custom_rules").update(struct.pack("=I", number), rule)

    def labels(self, slot: str) -> Pairs:
        """The probe's name."""
        return own_labels(self._slots[slot])

    def watched(self, process: Process) -> Watched:
        """The counters of what it maps begin."""
        names = self._followed.names_of(process)
        return Watched(process, first(self._slots_in(names)), names[0] if names else "")

    def counts(self, look: Look) -> Iterator[Reading]:
        """Calls; the last value of an argument is kept for `levels`."""
        for each in look.calls:
            slot = self._slots[each.name]
            if slot.argument is not None and each.process is not None:
                self._last[each.process, each.name] = each.total.last
            yield from counts(slot, each.process, each.total)

    def slow(self, call: SlowCall) -> Event:
        """Any call whose probe has `slow`."""
        return slow_event(self._slots[call.name], call, call.comm)

    def ended(self, process: Process, look: Look) -> Iterator[Reading]:  # noqa: ARG002 - of others
        """Its last values are nobody's."""
        self._last = {key: n for key, n in self._last.items() if key[0] != process}
        yield from ()

    def levels(self, look: Look) -> Iterator[Level]:  # noqa: ARG002 - of others
        """The last values of arguments; once, where nobody watches the process and its end."""
        watched = set(self._followed.watch.processes)
        told, self._last = self._last, {k: n for k, n in self._last.items() if k[0] in watched}
        for (process, name), last in told.items():
            yield from levels(self._slots[name], process, last)

    def status(self, found: ProbeStatus) -> ProbeStatus:
        """Which library nobody maps: a name may be misspelled."""
        if found.state == "degraded" and found.reason != "no_tracepoint":
            return found
        for each in self._probes:
            if not any(map(self._libraries[each.name].match, self._followed.names)):
                return self._absent(found.probe, each)
        if found.state == "degraded":
            return found
        return replace(found, detail=f"probes: {len(self._probes)}, {found.detail}")

    def _absent(self, name: str, probe: ProbeConfig) -> ProbeStatus:
        if probe.library not in self._near:
            self._near[probe.library] = near_names(probe.library)
        near = self._near[probe.library]
        mend = f"did you mean '{near[0]}'?" if near else "it is probed as soon as a process maps it"
        detail = f"{probe.name}: no running process maps a file '{probe.library}'"
        return ProbeStatus(name, "degraded", "library_absent", detail, mend)

    def _slots_in(self, names: Sequence[str]) -> list[Slot]:
        return [slot for slot in self._slots.values()
                if any(map(self._libraries[slot.probe.name].match, names))]  # fmt: skip
