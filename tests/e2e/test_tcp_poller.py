"""TCP without BPF: the same figures under the same names, and an honest word on what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.aggregate.procfs import Procfs
from engine.readings import Count, Event, Level, ProbeOptions
from probes.bpf.errors import UnavailableError
from probes.tcp_retransmit import layouts
from probes.tcp_retransmit.probe import TcpRetransmitProbe
from tests.e2e.environments import as_user, skip_unless_reachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.readings import Reading

pytestmark = pytest.mark.root

ROOT = Path(__file__).resolve().parents[2]
PORT = 12_000 + os.getpid() % 20_000


def test_segments_bytes_and_the_kernels_counters_are_those_of_the_probe_with_bpf(
    netns_pair: Any, talk: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(category: str, event: str) -> Any:
        raise UnavailableError("no_tracepoint", f"no {category}:{event}", "a newer kernel")

    monkeypatch.setattr(layouts, "read_format", absent)
    readings: list[Reading] = []
    probe = TcpRetransmitProbe()
    status = probe.start(ProbeOptions({"sock_diag_share": 1.0}), readings.append)
    assert (status.state, status.reason) == ("degraded", "poller")
    ends = talk(netns_pair, 10, port=PORT, hold=True)
    for end in ends:
        assert end.stdout.readline() == "connected\n"
    probe.collect()
    for side in (0, 1):
        netns_pair.lose(20, side=side)
    for end in ends:
        end.stdin.write("\n")
        end.stdin.flush()
    for end in ends:
        assert end.stdout.readline() == "done\n"
    before = None
    while (now := [netns_pair.counter(side, "TcpRetransSegs") for side in (0, 1)]) != before:
        before = now
        time.sleep(0.7)
        probe.poll()
        probe.collect()
    for side, end in enumerate(ends):
        process = Procfs().identify(end.pid)
        sums: dict[str, float] = {}
        for reading in readings:
            if isinstance(reading, Count) and reading.process == process:
                name = reading.metric + "".join(f" {value}" for _, value in reading.labels)
                sums[name] = sums.get(name, 0) + reading.delta
        assert sums["tcp_retrans_segments_total"] == now[side] > 10
        assert sums["tcp_kernel_total RetransSegs"] == now[side]
        assert sums["tcp_bytes_total sent"] == sums["tcp_bytes_total received"] == 10 << 20
        assert "tcp_retrans_total" not in sums
        assert any(isinstance(r, Level) and r.process == process for r in readings)
        mine = [r for r in readings if isinstance(r, Event) and r.process == process]
        assert {event.kind for event in mine} == {"tcp_connection"}
        assert PORT in dict(mine[0].fields).values()
    probe.stop()


# Forks rather than starts programs: the interpreter may lie where only root may start it.
DRIVER = """
import json, os, signal, socket, time
from engine.readings import Count, ProbeOptions
from probes.tcp_retransmit.probe import TcpRetransmitProbe
readings = []
probe = TcpRetransmitProbe()
status = probe.start(ProbeOptions({"sock_diag_share": 1.0}), readings.append)
listener = socket.create_server(("127.0.0.1", 0))
address = listener.getsockname()

def receive():
    connection, _ = listener.accept()
    while connection.recv(65536):
        pass

def send():
    connection = socket.create_connection(address)
    connection.sendall(bytes(123456))
    time.sleep(60)

children = []
for work in (receive, send):
    children.append(os.fork())
    if children[-1] == 0:
        work()
        os._exit(0)
time.sleep(1)
probe.poll()
probe.collect()
found = {}
for r in readings:
    if isinstance(r, Count) and r.metric == "tcp_bytes_total" and r.process:
        found[f"{r.process.pid} {r.labels[0][1]}"] = r.delta
probe.stop()
for child in children:
    os.kill(child, signal.SIGKILL)
server, client = children
print(json.dumps([status.state, status.reason, status.detail, status.mend,
                  found.get(f"{client} sent"), found.get(f"{server} received")]))
"""


def test_an_ordinary_user_sees_its_own_jobs() -> None:
    prefix = as_user()
    skip_unless_reachable(prefix, ROOT)
    done = subprocess.run(
        [*prefix, sys.executable, "-c", DRIVER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    state, reason, detail, mend, sent, received = json.loads(done.stdout)
    assert (state, reason) == ("degraded", "poller")
    assert "this is uid 65534 without" in detail
    assert "no single retransmits" in detail
    assert mend
    assert sent == received == 123_456
