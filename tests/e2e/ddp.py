"""A real two-rank DistributedDataParallel job, one rank in each namespace of a pair."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.conftest import NetnsPair

RUN_ID = f"job{os.getpid()}"
WORKLOAD = Path(__file__).with_name("workloads") / "ddp.py"


@dataclass
class DdpJob:
    """Two ranks of the workload that talk over a pair's veth; `task_id` is what they are told."""

    pair: NetnsPair
    folder: Path
    options: tuple[str, ...]
    # Not the same for two runs of the tests on one machine: each agent sees every job.
    task_id: str = RUN_ID
    port: int = 29500
    python: str = sys.executable
    ranks: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> None:
        """Start both ranks."""
        self.folder.mkdir(exist_ok=True)
        for rank in (0, 1):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": self.pair.addresses[0],
                "MASTER_PORT": str(self.port),
                "GLOO_SOCKET_IFNAME": self.pair.devices[rank],
                "TORCHELASTIC_RUN_ID": self.task_id,
                "OMP_NUM_THREADS": "1",
            }
            with (self.folder / f"rank{rank}.err").open("w") as errors:
                self.ranks.append(
                    self.pair.popen(
                        rank,
                        self.python,
                        str(WORKLOAD),
                        *self.options,
                        "--report",
                        str(self.folder / f"rank{rank}.json"),
                        env=environment,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                    )
                )

    @property
    def pids(self) -> list[int]:
        """The ranks' own pids."""
        return [rank.pid for rank in self.ranks]

    def report(self, rank: int) -> dict[str, Any]:
        """What a rank wrote of itself; {} before it has written anything."""
        path = self.folder / f"rank{rank}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def steps(self, rank: int) -> int:
        """Steps that a rank says it has done."""
        return int(self.report(rank).get("steps", 0))

    def kill(self) -> None:
        """End both ranks."""
        for rank in self.ranks:
            rank.kill()
            rank.wait()
