"""Which task and rank a process belongs to.

The order of the sources is a contract (ARCHITECTURE.md, "Task and rank"): an explicit name, the
scheduler's, the launcher's, the rendezvous', the container's, the process group's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from engine.aggregate.containers import Container, container_of, named
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


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a process is for the series: its task ("" for none), rank ("" unknown) and name.

    `container`: where it runs, which labels `stallwatch_task_info` and events only.
    """

    task_id: str = ""
    rank: str = ""
    comm: str = ""
    container: Container = field(default_factory=Container)


@dataclass(slots=True)
class TaskDirectory:
    """Finds owners in /proc and remembers them; a process is asked about once.

    One that maps a watched library is asked again, since only then its group may be a task, and so
    is one that runs another program (exec): its environment is another.
    """

    procfs: Procfs = field(default_factory=Procfs)
    _owners: dict[Process, Owner] = field(default_factory=dict)
    _images: dict[Process, bytes] = field(default_factory=dict)
    _libraries: set[Process] = field(default_factory=set)
    _rendezvous: dict[str, tuple[str, set[Process]]] = field(default_factory=dict)

    def lookup(self, process: Process, *, library: bool = False) -> Owner:
        """The owner; an unknown one when the process has gone before it was ever seen."""
        known = self._owners.get(process)
        if known is not None and (known.task_id or not library):
            return known
        if library:
            self._libraries.add(process)
        owner = self._read(process)
        if owner is None:
            return known or Owner()
        self._owners[process] = owner
        return owner

    def renewed(self, process: Process) -> bool:
        """Whether it runs another program since it was read; then `lookup` reads it again."""
        before = self._images.get(process)
        stat = self.procfs.stat(process.pid) if before is not None else None
        if stat is None or stat.start_ticks != process.start_ticks:
            return False
        if not stat.image or stat.image == before:
            return False
        self._owners.pop(process, None)
        return True

    def forget(self, process: Process) -> None:
        """The process is gone; its pid may come back as another."""
        self._owners.pop(process, None)
        self._images.pop(process, None)
        self._libraries.discard(process)
        for address, (_, members) in list(self._rendezvous.items()):
            members.discard(process)
            if not members:
                del self._rendezvous[address]

    def _read(self, process: Process) -> Owner | None:
        stat = self.procfs.stat(process.pid)
        if stat is None or stat.start_ticks != process.start_ticks:
            return None
        environ = self.procfs.environ(process.pid)
        if environ is None and self._leaves(process):
            # Its environment went first; what is left would make another task of it.
            return None
        environ = environ or {}
        self._images[process] = stat.image
        container = container_of(self.procfs.cgroups(process.pid))
        task_id = (
            _named_task(environ)
            or self._torch_task(process, environ)
            or _mpi_task(environ)
            or container.task_id
            or (self._group_task(stat.process_group) if process in self._libraries else "")
        )
        rank = next((environ[name] for name in RANK_VARIABLES if environ.get(name)), "")
        container = named(container, environ, self.procfs.root / f"{process.pid}/root")
        return Owner(_bounded(task_id), _bounded(rank) if task_id else "", stat.comm, container)

    def _leaves(self, process: Process) -> bool:
        """Whether it has given its memory back, and so will not say anything any more."""
        stat = self.procfs.stat(process.pid)
        return stat is None or (not stat.memory_bytes and stat.threads <= 1)

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
