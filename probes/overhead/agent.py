"""A stallwatch agent of its own that is started and stopped again and again."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

from engine.http.client import NoAgentError, ask
from probes.overhead.errors import OverheadError
from rules.slotted import dataclass, field

TICKS = os.sysconf("SC_CLK_TCK")
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
QUERY_TIMEOUT_SECONDS = 30.0

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclass(slots=True)
class TrialAgent:
    """`stallwatch run` in a folder of its own, with nothing configured but its probes.

    `probes`: those that may run, None: all. `settings`: further lines of the configuration.
    `cpu_seconds`: (used, passed) of each slice that was measured. `attached`: the probes that were
    on at the last start.
    """

    folder: Path
    probes: tuple[str, ...] | None = None
    installed: tuple[str, ...] = ()
    settings: str = ""
    cpu_seconds: list[tuple[float, float]] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    attached: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    _url: str = ""

    @property
    def pid(self) -> int:
        """Of the running agent, 0 when it does not run."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start; returns when each probe has said how it stands. Raises OverheadError."""
        config = self.folder / "stallwatch.yaml"
        config.write_text(self._config(), encoding="utf-8")
        listen = f"127.0.0.1:{free_port()}"
        self._url = f"http://{listen}"
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "engine.cli.start", "run", "--config", str(config)),
                    *("--listen", listen, "--state", str(self.folder / "state")),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the measurement, which ends the agent
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call, no lock is taken
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not (up := self.metrics("stallwatch_probe_up")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise OverheadError(f"overhead: the agent did not start:\n{self.tail()}")
            time.sleep(0.1)
        self.attached = tuple(sorted(_label(name, "probe") for name, value in up if value))
        if not self.attached:
            raise OverheadError(f"overhead: no probe could attach:\n{self.tail()}")

    def measure(self, seconds: float) -> None:
        """Let a slice pass; note what the agent uses."""
        if self._process is None:
            time.sleep(seconds)
            return
        stat, status = (Path(f"/proc/{self.pid}/{name}") for name in ("stat", "status"))
        before = _cpu_ticks(stat.read_text(encoding="utf-8"))
        time.sleep(seconds)
        used = (_cpu_ticks(stat.read_text(encoding="utf-8")) - before) / TICKS
        self.cpu_seconds.append((used, seconds))
        lines = status.read_text(encoding="utf-8").splitlines()
        resident = next(line for line in lines if line.startswith("VmRSS"))
        self.rss_bytes.append(int(resident.split()[1]) * 1024)

    def stop(self) -> None:
        """Stop and wait for it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_SECONDS)
            self.kill()

    def kill(self) -> None:
        """End it in any case."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def metrics(self, start: str) -> list[tuple[str, float]]:
        """(name with labels, value) of each sample whose text begins so; none without an answer."""
        try:
            text = ask(self._url, "/metrics").decode()
        except NoAgentError:
            return []
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        lines = [line.rpartition(" ") for line in samples if line.startswith(start)]
        return [(name, float(value)) for name, _, value in lines]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series that an expression gives now. Raises NoAgentError."""
        path = f"/api/v1/query?query={quote(expression)}"
        answer = ask(self._url, path, QUERY_TIMEOUT_SECONDS)
        found = json.loads(answer)["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def tail(self) -> str:
        """The end of what the agent wrote."""
        text = (self.folder / "agent.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-12:])

    def _config(self) -> str:
        if self.probes is None:
            return self.settings or "{}\n"
        off = [name for name in self.installed if name not in self.probes]
        sections = "".join(f"  {name}: {{enabled: false}}\n" for name in off)
        return f"{self.settings}probes:\n{sections}" if sections else self.settings or "{}\n"


def _label(sample: str, name: str) -> str:
    return sample.partition(f'{name}="')[2].partition('"')[0]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def bpf_users() -> set[int]:
    """Processes that hold BPF programs: their probes may cost the command something all along."""
    found = set()
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if "bpf-prog" in str(fd.readlink()):
                found.add(int(fd.parts[2]))
    return found


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the measurement dies, however it dies (prctl(2))."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _cpu_ticks(stat: str) -> int:
    """User and system time: fields 14 and 15; the name in parentheses may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
