"""`rdma`: retransmissions, congestion and errors of RDMA ports, for the task on the device.

Metrics: rdma_retrans_total, rdma_congestion_total, rdma_errors_total (device, port, cause),
rdma_xmit_wait_ticks_total (device, port), rdma_device_held, rdma_device_tasks (device).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from engine.aggregate.identity import TaskDirectory
from engine.config.model import Section
from engine.readings import Count, Level, ProbeStatus, Produced
from probes.bpf.capabilities import MEND_OTHERS
from probes.rdma import sysfs
from probes.rdma.counters import WAIT
from probes.rdma.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.readings import ProbeOptions, Process, Reading
    from probes.rdma.sampler import Growth, Taken

HELD, TASKS = "rdma_device_held", "rdma_device_tasks"
SILENT_SECONDS = 30.0
_NAMED = 3  # files that a status names


class RdmaSettings(Section):
    """What `probes: rdma:` may hold."""

    interval_seconds: Annotated[float, Field(gt=0)] = 10.0
    links_limit: Annotated[int, Field(strict=True, ge=1)] = 20_000


class RdmaProbe:
    """See the module. One thread uses it; the files are read by another."""

    name = "rdma"
    Config: ClassVar[type[RdmaSettings]] = RdmaSettings

    def __init__(self, root: Path = sysfs.SYSFS, sampler: Sampler | None = None) -> None:
        self._root = root
        self._sampler = sampler
        self._directory = TaskDirectory()
        self._emit: Callable[[Reading], None] | None = None
        self._known: frozenset[Process] = frozenset()
        self._last = sysfs.Look()
        self._off = ProbeStatus(self.name, "off", "stopped")

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Begin to read, where the kernel has RDMA. Devices may come and go later."""
        if not sysfs.exists(self._root):
            self._off = ProbeStatus(self.name, "off", "device_absent", *sysfs.ABSENT)
            return self._off
        settings = RdmaSettings.model_validate(options.settings)
        if self._sampler is None:
            self._sampler = Sampler(self._root, settings.interval_seconds, settings.links_limit)
            self._sampler.start()
        self._emit = emit
        return self.status()

    def poll(self) -> None:
        """Nothing to drain."""

    def produced(self) -> Produced:
        """A poller loses nothing."""
        return Produced(self.name)

    def collect(self) -> None:
        """Emit what grew since the last call, and who holds each device."""
        if self._emit is None or self._sampler is None:
            return
        taken = self._sampler.take()
        self._last = taken.last
        for reading in self._readings(taken):
            self._emit(reading)
        present = frozenset(process for who in taken.holders.values() for process in who)
        for process in self._known - present:
            self._directory.forget(process)
        self._known = present

    def _readings(self, taken: Taken) -> Iterator[Reading]:
        ranks = {device: self._ranks(who) for device, who in taken.holders.items()}
        for device in taken.last.devices:
            held = ranks.get(device, {})
            labels = (("device", device),)
            yield Level(TASKS, None, float(len({task for task, _ in held})), labels)
            for process in held.values():
                yield Level(HELD, process, 1.0, labels)
        for each in taken.growth:
            yield _count(each, ranks.get(each.device, {}))

    def _ranks(self, holders: frozenset[Process]) -> dict[tuple[str, str], Process]:
        """(task, rank) of the holders, each with one process; one that is no task's is no rival."""
        found: dict[tuple[str, str], Process] = {}
        for process in sorted(holders):
            owner = self._directory.lookup(process)
            if owner.task_id:
                found.setdefault((owner.task_id, owner.rank), process)
        return found

    def status(self) -> ProbeStatus:
        """The present state."""
        if self._emit is None or self._sampler is None:
            return self._off
        silent = self._sampler.silent_seconds()
        if silent > SILENT_SECONDS:
            detail = f"an RDMA device has not answered for {silent:.0f} s"
            mend = "check dmesg for firmware messages of the device"
            return ProbeStatus(self.name, "degraded", "device_silent", detail, mend)
        closed = self._sampler.unreadable_processes()
        if closed and self._last.devices:
            detail = f"open files of {closed} processes cannot be read: their devices are nobody's"
            return ProbeStatus(self.name, "degraded", "unreadable_process", detail, MEND_OTHERS)
        return ProbeStatus(self.name, "attached", detail=self._detail())

    def _detail(self) -> str:
        parts = [f"{len(self._last.devices)} devices"]
        for word, files in (
            ("tell no number", self._last.unreadable),
            ("stand at their ceiling", self._last.saturated),
        ):
            if files:
                more = ", ..." if len(files) > _NAMED else ""
                parts.append(f"{len(files)} counters {word}: {', '.join(files[:_NAMED])}{more}")
        return "; ".join(parts)

    def stop(self) -> None:
        """Stop reading."""
        self._emit = None
        if self._sampler is not None:
            self._sampler.stop()
            self._off = ProbeStatus(self.name, "off", "stopped", "the agent is stopping")


def _count(each: Growth, ranks: dict[tuple[str, str], Process]) -> Count:
    """A port counts once: for the one rank on its device, else the one task, else the node."""
    labels = (
        [("device", each.device), ("port", each.port)] if each.port else [("device", each.device)]
    )
    if each.counter.metric != WAIT:
        labels.append(("cause", each.counter.cause))
    tasks = {task for task, _ in ranks}
    process = next(iter(ranks.values())) if len(tasks) == 1 else None
    return Count(
        each.counter.metric,
        process,
        float(each.delta),
        tuple(labels),
        whole_task=process is not None and len(ranks) > 1,
    )
