"""Takes CPU time from a process: by its cgroup (v2 or v1), else by stopping it most of the time."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


class Throttle:
    """`share` of one core from `start` to `stop`. `way` says how."""

    def __init__(self, pid: int, share: float) -> None:
        self._pid = pid
        self._share = share
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._stop_and_go, daemon=True)
        self._group: Path | None = None
        self.way = ""

    def start(self) -> None:
        quota = str(int(PERIOD_US * self._share))
        for parent, name, value in (
            (ROOT, "cpu.max", f"{quota} {PERIOD_US}"),
            (ROOT / "cpu", "cpu.cfs_quota_us", quota),
        ):
            group = parent / f"stallwatch-throttle-{os.getpid()}-{self._pid}"
            try:
                group.mkdir()
            except OSError:
                continue
            if not (group / name).exists():  # no such controller, or no cgroup at all
                group.rmdir()
                continue
            try:
                (group / name).write_text(value)
                (group / "cgroup.procs").write_text(str(self._pid))
            except OSError:
                group.rmdir()
                continue
            self._group, self.way = group, name
            return
        self.way = "SIGSTOP"
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._group is not None:
            (self._group.parent / "cgroup.procs").write_text(str(self._pid))
            self._group.rmdir()
            self._group = None

    def _stop_and_go(self) -> None:
        while not self._ended.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            self._ended.wait(0.5)
            os.kill(self._pid, signal.SIGCONT)
            self._ended.wait(0.5 * self._share)
