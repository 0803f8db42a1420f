"""The compiled stand-in of a job (stand_ins/owner.c), and what the agent would say of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from engine.aggregate.aggregator import Aggregator
from engine.aggregate.fold import Fold
from engine.aggregate.identity import TaskDirectory
from engine.labels import Labels
from engine.readings import ProbeOptions
from engine.series import stale_mask
from probes.bpf import tracefs
from probes.bpf.errors import UnavailableError
from probes.libraries import shared
from probes.torch_step.probe import TorchStepProbe

if TYPE_CHECKING:
    from engine.readings import Reading

SOURCE = Path(__file__).with_name("stand_ins") / "owner.c"
# Flushes follow each other within moments here, so that a rate means nothing to a budget.
EXACT: dict[str, object] = {"budget": {"enabled": False}}
LIBRARY = "libtorch_cpu.so"


def build(folder: Path) -> Path:
    """Compile the program and its library; the program."""
    compiler = shutil.which("gcc")
    assert compiler, "a compiler is needed for the stand-in: apt-get install gcc"
    shared_object = ["-shared", "-fPIC", "-DLIBRARY", "-o", str(folder / LIBRARY)]
    subprocess.run([compiler, "-O1", *shared_object, str(SOURCE)], check=True)
    program = ["-o", str(folder / "owner"), str(SOURCE), "-ldl", "-pthread"]
    subprocess.run([compiler, "-O1", *program], check=True)
    rest = folder / "rest.c"
    rest.write_text("#include <unistd.h>\nint main() { for (;;) pause(); }\n")
    subprocess.run([compiler, "-static", "-o", str(folder / "rest"), str(rest)], check=True)
    return folder / "owner"


class Job:
    """A running stand-in."""

    def __init__(
        self, program: Path, task: str, *prefix: str, library: str = "", **environment: str
    ) -> None:
        library = library or str(program.with_name(LIBRARY))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        names = {"STALLWATCH_TASK_ID": task} if task else {}
        self.process: subprocess.Popen[str] = subprocess.Popen(  # type: ignore[call-overload]
            [*prefix, str(program), *([library] if library != "-" else [])],
            text=True,
            env={**os.environ, **names, **environment},
            **pipes,
        )
        self.children: list[int] = []
        self.pid = int(self._line())

    def _line(self) -> str:
        return str(self.process.stdout.readline()).strip()  # type: ignore[union-attr]

    def tell(self, *words: object) -> None:
        """Give an order whose answer nobody waits for."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def do(self, *words: object) -> str:
        """Give an order and wait until it is done."""
        self.tell(*words)
        return self._line()

    def fork(self, steps: int = 0, pid: int = 0) -> int:
        """A child that takes some steps and stays; its pid, `pid` if that is free."""
        child = int(self.do("fork", steps, pid).split()[0])
        self.children.append(child)
        return child

    def end(self) -> None:
        """Kill it and its children, and reap it."""
        for pid in self.children:
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.stdout.close()  # type: ignore[union-attr]


class Observer:
    """The probe and the aggregation of an agent, in this process and without its clock."""

    def __init__(self) -> None:
        self.aggregator = Aggregator(Fold(Labels()), TaskDirectory())
        self.probe = TorchStepProbe()
        self.now = 0
        self.values: dict[Labels, float] = {}
        self.stale: set[Labels] = set()
        # The last value of each steps_total, of tasks that ended too.
        self.seen: dict[tuple[str, str], float] = {}
        self.status = self.probe.start(ProbeOptions(EXACT), self._take)

    def _take(self, reading: Reading) -> None:
        self.aggregator.add("torch_step", reading)

    def poll(self) -> None:
        """What happens about twice a second."""
        self.probe.poll()

    def attach(self, folder: Path, files: int = 1) -> None:
        """Poll until so many files below a folder are probed: a poll attaches for so long only."""
        deadline = time.monotonic() + 20
        while self.attached(folder) != files or self.probe._sites.pending:
            assert time.monotonic() < deadline, self.probe.status()
            self.flush()
            time.sleep(0.05)

    def flush(self) -> None:
        """Two flushes: a counter's first sample is a 0."""
        for _ in range(2):
            self.poll()
            self.probe.collect()
            self.now += 10_000
            flush = self.aggregator.flush(self.now)
            gone = stale_mask(flush.values)
            self.values = {
                labels: float(value)
                for labels, value, stale in zip(flush.labels, flush.values, gone, strict=True)
                if not stale
            }
            self.seen |= {
                (labels.get("task_id"), labels.get("rank")): value
                for labels, value in self.values.items()
                if labels.name == "steps_total"
            }
            self.stale |= {
                labels for labels, stale in zip(flush.labels, gone, strict=True) if stale
            }

    def steps(self, task: str, metric: str = "steps_total") -> dict[str, float]:
        """A task's counter by rank."""
        return {
            labels.get("rank"): value
            for labels, value in self.values.items()
            if labels.name == metric and labels.get("task_id") == task
        }

    def info(self, task: str) -> list[dict[str, str]]:
        """The labels of a task's `stallwatch_task_info`."""
        return [
            dict(labels)
            for labels in self.values
            if labels.name == "stallwatch_task_info" and labels.get("task_id") == task
        ]

    def attached(self, folder: Path) -> int:
        """Files below a folder that carry probes."""
        return len(self.files(folder))

    def files(self, folder: Path) -> list[str]:
        """Their paths."""
        return [
            file.path
            for file in self.probe._sites._files.values()
            if file.path.startswith(f"{folder}/")
            and any(site.attachments for site in file.sites.values())
        ]

    def few_attached(self, folder: Path, most: int) -> bool:
        """Poll; whether so many are attached then, or fewer."""
        self.poll()
        return self.attached(folder) <= most

    def watched(self, pids: set[int]) -> set[int]:
        """Which of these the watch has."""
        watch = shared.current()
        assert watch is not None
        return pids & set(watch._known)

    def close(self) -> None:
        """Detach everything."""
        self.probe.stop()


def holdings(pid: int | str = "self") -> Counter[str]:
    """What a process holds of the kernel, by kind: BPF maps, programs and links, perf events,
    pidfds and the like, and its entries in uprobe_events. Not the one inotify instance, which comes
    with the first file and stays.
    """
    kinds: Counter[str] = Counter()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue  # the one of the listing
        if target.startswith("anon_inode:") and target != "anon_inode:inotify":
            kinds[target.removeprefix("anon_inode:")] += 1
    own = os.getpid() if pid == "self" else pid
    try:
        entries = (tracefs.folder() / "uprobe_events").read_text()
    except (OSError, UnavailableError):
        entries = ""
    kinds["uprobe_events"] = len(re.findall(rf"^p:stallwatch/\w_{own}_", entries, re.MULTILINE))
    return kinds


def holds_again(before: Counter[str], observer: Observer, seconds: float = 60) -> bool:
    """Whether this process comes to hold what it held before: some is let go of in the background,
    and other jobs of the machine come and go.
    """
    deadline = time.monotonic() + seconds
    while holdings() != before:
        if time.monotonic() > deadline:
            return False
        observer.poll()
        time.sleep(0.2)
    return True
