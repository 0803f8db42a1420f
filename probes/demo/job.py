"""The demo's job: two ranks, one in each namespace."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from probes.demo.network import ADDRESSES, DEVICE
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from probes.demo.network import Network

MASTER_PORT = "29500"
# What a scheduler may have put into our own environment would name another task or rank.
_OTHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_", "GROUP_", "LOCAL_")


@functools.cache
def has_torch() -> bool:
    """Whether this interpreter has a PyTorch that can talk over Gloo.

    Tried in a process of its own: a broken installation can fail in many ways, and this one
    should not carry a gigabyte of libraries.
    """
    if importlib.util.find_spec("torch") is None:
        return False
    trial = "import sys; from torch import distributed as d; sys.exit(not d.is_gloo_available())"
    return (
        subprocess.run([sys.executable, "-c", trial], check=False, capture_output=True).returncode
        == 0
    )


@dataclass(slots=True)
class Job:
    """Two running ranks. `steps`: how many each has done, by its own count."""

    task_id: str
    workload: str
    ranks: list[subprocess.Popen[str]] = field(default_factory=list)
    steps: list[int] = field(default_factory=lambda: [0, 0])
    folder: Path | None = None

    @property
    def description(self) -> str:
        """The workload in words."""
        if self.workload == "ddp":
            return "train with PyTorch DistributedDataParallel on Gloo"
        return "all-reduce their gradients in a ring of TCP sockets"

    def check(self) -> None:
        """Raises StallwatchError if a rank has ended."""
        for rank, process in enumerate(self.ranks):
            if process.poll() is not None:
                said = "" if self.folder is None else _last_line(self.folder / f"rank{rank}.err")
                raise StallwatchError(
                    f"stallwatch demo: rank {rank} ended with exit status {process.returncode}"
                    f"{': ' + said if said else ''}"
                )

    def follow(self, rank: int) -> None:
        """Keep `steps` up to date until the rank ends."""
        output = self.ranks[rank].stdout
        for line in output or ():
            self.steps[rank] = int(line)


@contextmanager
def job(network: Network, task_id: str, folder: Path) -> Iterator[Job]:
    """Start both ranks; they are killed at the end. `folder` takes their error output."""
    started = Job(task_id, "ddp" if has_torch() else "ring", folder=folder)
    try:
        for rank in (0, 1):
            _start(started, rank, network, folder)
        yield started
    finally:
        for process in started.ranks:
            process.kill()
        for process in started.ranks:
            process.wait()


def _start(started: Job, rank: int, network: Network, folder: Path) -> None:
    with (folder / f"rank{rank}.err").open("w") as errors:
        process = subprocess.Popen(
            network.command(rank, sys.executable, "-m", "probes.demo.rank", started.workload),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=_environment(started.task_id, rank),
            # Ctrl-C is the demo's to answer; it ends the ranks in its own order.
            start_new_session=True,
        )
    started.ranks.append(process)
    threading.Thread(target=started.follow, args=(rank,), daemon=True).start()


def _environment(task_id: str, rank: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
    return {
        **inherited,
        "STALLWATCH_TASK_ID": task_id,
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": ADDRESSES[0],
        "MASTER_PORT": MASTER_PORT,
        "GLOO_SOCKET_IFNAME": DEVICE,
        "OMP_NUM_THREADS": "1",
    }


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return lines[-1].strip() if lines else ""
