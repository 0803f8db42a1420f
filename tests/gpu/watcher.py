"""Runs probes in a process of its own, as the agent does: `python -m tests.gpu.watcher`.

Reads a JSON list a line: ["start", {probe: settings}], ["flush", pid], ["stop"]; answers each with
a line of JSON. A flush gives what a process did since the last one: {metric: {labels: value}}.
"""

from __future__ import annotations

import importlib
import json
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from engine.readings import Count, Level, ProbeOptions

if TYPE_CHECKING:
    from engine.readings import Reading

# By their modules: where nothing of ours is installed there are no entry points.
PROBES = {
    "cuda": "probes.cuda.probe:CudaProbe",
    "nccl": "probes.nccl.probe:NcclProbe",
    "torch_step": "probes.torch_step.probe:TorchStepProbe",
    "gpu": "probes.gpu.probe:GpuProbe",
    "gpu_driver": "probes.gpu_driver.probe:GpuDriverProbe",
    "tcp_retransmit": "probes.tcp_retransmit.probe:TcpRetransmitProbe",
    "process": "probes.process.probe:ProcessProbe",
}
# Half of the agent's interval, so that a budget acts within the few seconds that there are.
POLL_SECONDS, FLUSH_SECONDS = 0.5, 5.0


class Watcher:
    """Polls twice a second and flushes every five, much as the agent does."""

    def __init__(self) -> None:
        self._probes: list[Any] = []
        self._readings: list[Reading] = []
        self._flush_at = 0.0

    def answer(self, word: str, *arguments: Any) -> Any:
        """Do what is asked."""
        if word == "start":
            return self._start(arguments[0])
        if word == "flush":
            return self._flush(int(arguments[0]))
        return self._stop()

    def turn(self) -> None:
        """What is done between two requests."""
        for probe in self._probes:
            probe.poll()
        if time.monotonic() >= self._flush_at:
            self._collect()

    def _start(self, settings: dict[str, dict[str, object]]) -> dict[str, list[str]]:
        said: dict[str, list[str]] = {}
        for name, own in settings.items():
            module, _, kind = PROBES[name].partition(":")
            try:
                probe = getattr(importlib.import_module(module), kind)()
            except (ImportError, AttributeError) as error:
                said[name] = ["off", "import", str(error)]
                continue
            status = probe.start(ProbeOptions(own), self._readings.append)
            said[name] = [status.state, status.reason, status.detail]
            self._probes.append(probe)
        self._flush_at = time.monotonic() + FLUSH_SECONDS
        for _ in range(6):  # many places are attached over several polls
            self.turn()
            time.sleep(POLL_SECONDS)
        return said

    def _collect(self) -> None:
        self._flush_at = time.monotonic() + FLUSH_SECONDS
        for probe in self._probes:
            probe.produced()
            probe.collect()
        if len(self._readings) > 1_000_000:  # nobody asks for them
            self._readings.clear()

    def _flush(self, pid: int) -> dict[str, dict[str, float]]:
        self.turn()
        self._collect()
        found: dict[str, dict[str, float]] = {}
        for each in self._readings:
            if not isinstance(each, Count | Level) or each.process is None:
                continue
            if each.process.pid == pid:
                labels = " ".join(value for _, value in each.labels)
                row = found.setdefault(each.metric, {})
                counted = row.get(labels, 0.0) if isinstance(each, Count) else 0.0
                row[labels] = counted + (each.delta if isinstance(each, Count) else each.value)
        self._readings.clear()
        return found

    def _stop(self) -> dict[str, list[list[Any]]]:
        lost = {}
        for probe in self._probes:
            told = probe.produced().lost
            lost[probe.name] = [[*key, count] for key, count in told if count]
            probe.stop()
        self._probes.clear()
        return lost


def main() -> None:
    """Serve standard input until it ends."""
    requests: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        requests.put(None)

    threading.Thread(target=read, daemon=True).start()
    watcher = Watcher()
    while True:
        try:
            line = requests.get(timeout=POLL_SECONDS)
        except queue.Empty:
            watcher.turn()
            continue
        if line is None:
            watcher.answer("stop")
            return
        print(json.dumps(watcher.answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
