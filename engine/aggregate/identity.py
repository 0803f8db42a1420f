"""Which task and rank a process belongs to.

The order of the sources is a contract (ARCHITECTURE.md, "Task and rank"): an explicit name, the
scheduler's, the launcher's, the rendezvous', the container's, the process group's.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from engine.aggregate.procfs import CLOCK_TICKS_PER_SECOND, Procfs
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from engine.readings import Process

# torchrun's rdzv_id when the user names none: shared by unrelated jobs.
SHARED_RUN_IDS = frozenset({"", "none", "None", "default"})
# A job's environment may hold 128 KiB in one variable, and each of its series carries the labels.
MAX_CHARACTERS = 200
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
MPI_VARIABLES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID")

_ID = r"(?P<id>[0-9a-f]{64})"
_POD = re.compile(
    r"kubepods[^/]*/.*?pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}"
    r"[-_][0-9a-f]{12}|[0-9a-f]{32})"
)
# cgroup shapes of Docker, containerd's CRI plugin and podman; systemd and cgroupfs drivers.
_CONTAINERS = (
    re.compile(rf"/docker-{_ID}\.scope"),
    re.compile(rf"/docker/{_ID}"),
    re.compile(rf"cri-containerd[-:]{_ID}"),
    re.compile(rf"/libpod-{_ID}(?:\.scope)?"),
)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a process is for the series: its task ("" for none), rank ("" unknown) and name."""

    task_id: str = ""
    rank: str = ""
    comm: str = ""


@dataclass(slots=True)
class TaskDirectory:
    """Finds owners in /proc and remembers them; a process is asked about once.

    One that maps a watched library is asked again, since only then its group may be a task.
    """

    procfs: Procfs = field(default_factory=Procfs)
    _owners: dict[Process, Owner] = field(default_factory=dict)
    _rendezvous: dict[str, tuple[str, set[Process]]] = field(default_factory=dict)

    def lookup(self, process: Process, *, library: bool = False) -> Owner:
        """The owner; an unknown one when the process has gone before it was ever seen."""
        known = self._owners.get(process)
        if known is not None and (known.task_id or not library):
            return known
        owner = self._read(process, library=library)
        if owner is None:
            return known or Owner()
        self._owners[process] = owner
        return owner

    def forget(self, process: Process) -> None:
        """The process is gone; its pid may come back as another."""
        self._owners.pop(process, None)
        for address, (_, members) in list(self._rendezvous.items()):
            members.discard(process)
            if not members:
                del self._rendezvous[address]

    def _read(self, process: Process, *, library: bool) -> Owner | None:
        stat = self.procfs.stat(process.pid)
        if stat is None or stat.start_ticks != process.start_ticks:
            return None
        environ = self.procfs.environ(process.pid) or {}
        task_id = (
            _named_task(environ)
            or self._torch_task(process, environ)
            or _mpi_task(environ)
            or container_task(self.procfs.cgroups(process.pid))
            or (self._group_task(stat.process_group) if library else "")
        )
        rank = next((environ[name] for name in RANK_VARIABLES if environ.get(name)), "")
        return Owner(_bounded(task_id), _bounded(rank) if task_id else "", stat.comm)

    def _torch_task(self, process: Process, environ: dict[str, str]) -> str:
        """`torch:ADDR:PORT@START`, START being the job's oldest process on this node.

        Without it two jobs that follow each other on one port would be one task.
        """
        address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
        if not address or not port:
            return ""
        place = f"{address}:{port}"
        if place not in self._rendezvous:
            ticks = min((p.start_ticks for p in self._sharing(place)), default=process.start_ticks)
            start = self.procfs.boot_time_seconds() + ticks / CLOCK_TICKS_PER_SECOND
            self._rendezvous[place] = (f"torch:{place}@{start:.0f}", set())
        task_id, members = self._rendezvous[place]
        members.add(process)
        return task_id

    def _sharing(self, place: str) -> list[Process]:
        found = []
        for pid in self.procfs.pids():
            environ = self.procfs.environ(pid)
            if not environ or f"{environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}" != place:
                continue
            process = self.procfs.identify(pid)
            if process is not None:
                found.append(process)
        return found

    def _group_task(self, process_group: int) -> str:
        leader = self.procfs.stat(process_group)
        # A group outlives its leader; then the number alone has to do.
        return f"pgrp:{process_group}" + (f"@{leader.start_ticks}" if leader else "")


def _bounded(text: str) -> str:
    """A label value of at most MAX_CHARACTERS, different for different texts."""
    if len(text) <= MAX_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{text[: MAX_CHARACTERS - len(digest) - 1]}~{digest}"


def _named_task(environ: dict[str, str]) -> str:
    if environ.get("STALLWATCH_TASK_ID"):
        return environ["STALLWATCH_TASK_ID"]
    job = environ.get("SLURM_JOB_ID")
    if job:
        step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or "batch"
        return f"slurm:{job}.{step}"
    run_id = environ.get("TORCHELASTIC_RUN_ID", "")
    return "" if run_id in SHARED_RUN_IDS else f"torchrun:{run_id}"


def _mpi_task(environ: dict[str, str]) -> str:
    return next((f"mpi:{environ[name]}" for name in MPI_VARIABLES if environ.get(name)), "")


def container_task(cgroups: tuple[str, ...]) -> str:
    """`pod:UID` or `container:ID` from cgroup paths; "" for shapes that are not known."""
    for path in cgroups:
        pod = _POD.search(path)
        if pod:
            return "pod:" + pod["uid"].replace("_", "-")
    for path in cgroups:
        for shape in _CONTAINERS:
            container = shape.search(path)
            if container:
                return "container:" + container["id"][:12]
    return ""
