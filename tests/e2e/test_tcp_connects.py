"""Connects, failures, resets and owners against what the processes themselves saw."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.aggregate.procfs import Procfs
from engine.readings import Count, Event, Level, ProbeOptions, Process
from probes.tcp_retransmit import layouts, namespaces
from probes.tcp_retransmit.probe import TcpRetransmitProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.readings import Pairs, Reading

pytestmark = pytest.mark.root

HERE = Path(__file__).parent
PORT = 11_000 + os.getpid() % 20_000
CLOSED = PORT + 1
FAILURES = "tcp_connect_failures_total"


class Watcher:
    """The probe and everything that it said."""

    def __init__(self) -> None:
        self.probe = TcpRetransmitProbe()
        self.readings: list[Reading] = []

    def start(self, **settings: object) -> None:
        status = self.probe.start(
            ProbeOptions(settings={"sock_diag_share": 1.0, **settings}), self.readings.append
        )
        assert status.state == "attached", status

    def total(self, process: Process, metric: str, labels: Pairs | None = None) -> float:
        return sum(
            r.delta
            for r in self.readings
            if isinstance(r, Count)
            and (r.metric, r.process) == (metric, process)
            and (labels is None or r.labels == labels)
        )

    def events(self, process: Process) -> list[tuple[str, dict[str, Any]]]:
        return [
            (r.kind, dict(r.fields))
            for r in self.readings
            if isinstance(r, Event) and r.process == process
        ]


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    yield made
    made.probe.stop()


class Dialer:
    """A process on one side that connects as it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        found = Procfs().identify(process.pid)
        assert found is not None
        self.process = found

    def __call__(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def dial(netns_pair: Any) -> Callable[..., Dialer]:
    """Start a dialer; further arguments go before the command."""

    def start(*prefix: str, pair: Any = netns_pair) -> Dialer:
        command = (*prefix, sys.executable, str(HERE / "dialer.py"))
        return Dialer(pair.popen(0, *command, stdin=subprocess.PIPE))

    return start


@pytest.fixture
def listen(netns_pair: Any) -> Callable[..., Dialer]:
    """Start a listener on side 1 and wait until it listens."""

    def start(*words: str, pair: Any = netns_pair) -> Dialer:
        command = (sys.executable, str(HERE / "listener.py"), pair.addresses[1], str(PORT), *words)
        process = pair.popen(1, *command, stdin=subprocess.PIPE)
        assert process.stdout.readline() == "listening\n"
        return Dialer(process)

    return start


def _drop(pair: Any, rule: str, side: int = 1) -> None:
    text = (
        "add table inet stallwatch_loss\n"
        "add chain inet stallwatch_loss in { type filter hook input priority 0; }\n"
        f"add rule inet stallwatch_loss in meta l4proto tcp {rule}\n"
    )
    pair.run(side, "nft", "-f", "-", text=text)


def test_connects_are_counted_and_take_what_the_client_measured(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    listen()
    client = dial()
    address = netns_pair.addresses[1]
    measured = [float(client("connect", address, PORT)) for _ in range(20)]
    _drop(netns_pair, "numgen inc mod 4294967295 < 1 drop")  # one SYN is lost: a second is added
    measured.append(float(client("connect", address, PORT)))
    watcher.probe.poll()
    watcher.probe.collect()
    me = client.process
    assert watcher.total(me, "tcp_connect_seconds_count") == 21
    assert watcher.total(me, "tcp_connect_seconds_bucket", (("le", "+Inf"),)) == 21
    assert watcher.total(me, "tcp_connect_seconds_bucket", (("le", "1.0"),)) == 20
    seconds = watcher.total(me, "tcp_connect_seconds_sum")
    assert seconds < sum(measured)
    assert seconds == pytest.approx(sum(measured), rel=0.05)
    assert watcher.total(me, FAILURES) == 0


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_a_refused_connect_is_a_failure_and_no_reset(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], v6: bool
) -> None:
    watcher.start()
    client = dial()
    address = (netns_pair.addresses_v6 if v6 else netns_pair.addresses)[1]
    assert [client("connect", address, CLOSED) for _ in range(5)] == ["ECONNREFUSED"] * 5
    watcher.probe.poll()
    watcher.probe.collect()
    me = client.process
    assert watcher.total(me, FAILURES, (("reason", "refused"),)) == 5
    assert watcher.total(me, FAILURES) == 5
    assert watcher.total(me, "tcp_resets_total") == 0
    kind, fields = watcher.events(me)[0]
    assert (kind, fields["reason"], fields["dst"]) == ("tcp_connect_failed", "refused", address)
    assert (fields["dport"], len(watcher.events(me))) == (CLOSED, 5)


def test_a_connect_that_nobody_answers_times_out(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer]
) -> None:
    netns_pair.run(0, "sysctl", "-qw", "net.ipv4.tcp_syn_retries=1")
    _drop(netns_pair, "drop")
    watcher.start()
    client = dial()
    assert client("connect", netns_pair.addresses[1], PORT) == "ETIMEDOUT"
    watcher.probe.collect()
    assert watcher.total(client.process, FAILURES, (("reason", "timed_out"),)) == 1
    assert watcher.total(client.process, FAILURES) == 1


def test_a_connect_that_the_process_gave_up_itself_is_told_apart(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer]
) -> None:
    _drop(netns_pair, "drop")
    watcher.start()
    client = dial()
    assert client("impatient", netns_pair.addresses[1], PORT, 0.2) == "ETIMEDOUT"
    time.sleep(1.1)
    watcher.probe.collect()
    assert watcher.total(client.process, FAILURES, (("reason", "abandoned"),)) == 1
    assert watcher.total(client.process, FAILURES) == 1
    assert [fields["reason"] for _, fields in watcher.events(client.process)] == ["abandoned"]


def test_an_unreachable_host_and_the_end_of_local_ports_have_reasons_of_their_own(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    listen()
    client = dial()
    address = netns_pair.addresses[1]
    _drop(netns_pair, f"tcp dport {CLOSED} reject with icmpx type host-unreachable")
    assert client("connect", address, CLOSED) == "EHOSTUNREACH"
    netns_pair.run(0, "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40000")
    assert float(client("connect", address, PORT)) > 0
    assert client("connect", address, PORT) == "EADDRNOTAVAIL"
    watcher.probe.collect()
    reasons = {
        reason: watcher.total(client.process, FAILURES, (("reason", reason),))
        for reason in ("unreachable", "no_port")
    }
    assert reasons == {"unreachable": 1, "no_port": 1}
    assert watcher.total(client.process, FAILURES) == 2


def test_without_the_error_report_a_refusal_is_still_known_and_the_rest_is_other(
    netns_pair: Any,
    watcher: Watcher,
    dial: Callable[..., Dialer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = tuple(each for each in layouts.OPTIONAL if each.event != "inet_sk_error_report")
    monkeypatch.setattr(layouts, "OPTIONAL", kept)
    watcher.start()
    client = dial()
    assert client("connect", netns_pair.addresses[1], CLOSED) == "ECONNREFUSED"
    _drop(netns_pair, "drop")
    client("impatient", netns_pair.addresses[1], PORT, 0.2)
    watcher.probe.collect()
    assert watcher.total(client.process, FAILURES, (("reason", "refused"),)) == 1
    assert watcher.total(client.process, FAILURES, (("reason", "other"),)) == 1


def test_a_reset_is_counted_at_both_ends_for_their_owners(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    server = listen("rude")
    client = dial()
    for _ in range(3):
        client("connect", netns_pair.addresses[1], PORT)
        client("send", 10)
        time.sleep(0.1)
    watcher.probe.poll()
    watcher.probe.collect()
    received = watcher.total(client.process, "tcp_resets_total", (("direction", "received"),))
    assert received == 3
    assert watcher.total(client.process, "tcp_resets_total") == 3
    kinds = [kind for kind, _ in watcher.events(client.process)]
    assert kinds == ["tcp_reset"] * 3
    # The server never sent a byte: it is known by closing.
    assert watcher.total(server.process, "tcp_resets_total", (("direction", "sent"),)) == 3


def test_one_tail_loss_probe_is_an_event_of_its_own_kind_and_no_loss(
    make_netns_pair: Callable[[str], Any],
    watcher: Watcher,
    dial: Callable[..., Dialer],
    listen: Callable[..., Dialer],
) -> None:
    pair = make_netns_pair("tail")  # with the kernel's default settings
    watcher.start()
    listen(pair=pair)
    client = dial(pair=pair)
    client("connect", pair.addresses[1], PORT)
    _drop(pair, "numgen inc mod 4294967295 < 1 drop")  # the next packet, and no other
    client("send", 100)
    time.sleep(1)
    watcher.probe.poll()
    watcher.probe.collect()
    me = client.process
    assert pair.counter(0, "TcpExtTCPLossProbes") == pair.counter(0, "TcpRetransSegs") == 1
    assert [kind for kind, _ in watcher.events(me)] == ["tcp_loss_probe"]
    assert watcher.total(me, "tcp_retrans_total") == 1
    assert watcher.total(me, "tcp_retrans_probes_total") == 1
    assert watcher.total(me, "tcp_loss_probes_total") == 1


def test_a_lost_burst_is_a_loss_and_no_probe(
    make_netns_pair: Callable[[str], Any],
    watcher: Watcher,
    dial: Callable[..., Dialer],
    listen: Callable[..., Dialer],
) -> None:
    pair = make_netns_pair("tail")
    watcher.start()
    listen(pair=pair)
    client = dial(pair=pair)
    client("connect", pair.addresses[1], PORT)
    _drop(pair, "numgen inc mod 4294967295 < 3 drop")  # the data, its probe, and one time-out
    client("send", 100)
    time.sleep(2)
    watcher.probe.poll()
    watcher.probe.collect()
    kinds = [kind for kind, _ in watcher.events(client.process)]
    assert kinds == ["tcp_loss_probe", "tcp_retransmit", "tcp_retransmit"]


def test_a_socket_belongs_to_whoever_sends_on_it_after_fork_and_after_passing_it_on(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    netns_pair.segment(1)
    watcher.start()
    listen()
    client = dial()
    _lossy(netns_pair)
    address = netns_pair.addresses[1]
    owners = []
    for word in ("fork", "pass"):
        client("connect", address, PORT)
        child = int(client(word, 4 << 20))
        found = Procfs().identify(child)
        assert found is not None
        owners.append(found)
    try:
        _until_quiet(netns_pair, watcher)
        counted = [watcher.total(owner, "tcp_retrans_total") for owner in owners]
        assert min(counted) > 10
        assert sum(counted) + watcher.total(client.process, "tcp_retrans_total") == pytest.approx(
            netns_pair.counter(0, "TcpRetransSegs"), abs=2
        )
    finally:
        for owner in owners:
            os.kill(owner.pid, signal.SIGKILL)


def test_bytes_are_those_that_the_programs_sent_and_read_whatever_was_lost(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    server = listen()
    client = dial()
    client("connect", netns_pair.addresses[1], PORT)
    watcher.probe.collect()
    _lossy(netns_pair)
    client("send", 5_000_001)
    _until_quiet(netns_pair, watcher)
    for _ in range(6):  # a process that only receives is met at one look in six
        watcher.probe.collect()
    assert netns_pair.counter(0, "TcpRetransSegs") > 20
    assert int(server("total")) == 5_000_001
    assert _bytes(watcher, client, "sent") == 5_000_001
    assert _bytes(watcher, server, "received") == 5_000_001
    assert _bytes(watcher, client, "received") == _bytes(watcher, server, "sent") == 0
    namespace = namespaces.network_namespace(client.process.pid)
    assert namespace is not None
    kernel, sockets = watcher.probe._sockets.check.told(namespace)
    assert kernel == sockets == netns_pair.counter(0, "TcpRetransSegs")
    assert "tcp_connection" in [kind for kind, _ in watcher.events(client.process)]


def test_a_connection_that_lives_between_two_looks_counts_too(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    listen()
    client = dial()
    client("connect", netns_pair.addresses[1], PORT)  # makes the namespace known
    watcher.probe.poll()
    watcher.probe.collect()
    for _ in range(3):
        client("connect", netns_pair.addresses[1], PORT)
        client("send", 1000)
        client("close")
    time.sleep(0.3)
    watcher.probe.poll()
    watcher.probe.collect()
    assert _bytes(watcher, client, "sent") == 3000


def test_what_stands_in_queues_and_who_limits_is_told_for_the_process(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer], listen: Callable[..., Dialer]
) -> None:
    watcher.start()
    listen("deaf")
    client = dial()
    client("connect", netns_pair.addresses[1], PORT)
    watcher.probe.collect()
    client("stuff", 0)
    time.sleep(0.5)
    watcher.probe.collect()
    watcher.readings.clear()
    watcher.probe.collect()
    levels = {
        r.metric: r.value
        for r in watcher.readings
        if isinstance(r, Level) and r.process == client.process
    }
    assert levels["tcp_connections"] == 1
    assert levels["tcp_unsent_bytes"] > 0
    time.sleep(0.5)
    watcher.probe.collect()
    limited = watcher.total(client.process, "tcp_busy_seconds_total", (("limit", "receiver"),))
    assert limited > 0


def _bytes(watcher: Watcher, who: Dialer, direction: str) -> float:
    return watcher.total(who.process, "tcp_bytes_total", (("direction", direction),))


def test_a_process_in_a_pid_namespace_of_its_own_is_known_by_its_pid_here(
    netns_pair: Any, watcher: Watcher, dial: Callable[..., Dialer]
) -> None:
    watcher.start()
    outer = dial("unshare", "--pid", "--fork", "--kill-child")
    assert outer("connect", netns_pair.addresses[1], CLOSED) == "ECONNREFUSED"
    children = Path(f"/proc/{outer.process.pid}/task/{outer.process.pid}/children").read_text()
    inner = Procfs().identify(int(children.split()[0]))
    assert inner is not None
    watcher.probe.poll()
    watcher.probe.collect()
    assert watcher.total(inner, FAILURES, (("reason", "refused"),)) == 1


def test_a_pid_that_is_used_again_is_another_process(watcher: Watcher) -> None:
    watcher.start()
    code = (
        "import socket\n"
        "for _ in range({}):\n"
        "    socket.socket().connect_ex(('127.0.0.1', 1))\n"
        "input()"
    )
    first = subprocess.Popen([sys.executable, "-c", code.format(3)], stdin=subprocess.PIPE)
    before = _settled(watcher, first.pid)
    first.communicate()
    second = _spawn_as(
        first.pid, [sys.executable, "-c", code.format(2) + "\nimport time;time.sleep(99)"]
    )
    try:
        after = _settled(watcher, second)
        assert before.pid == after.pid
        assert before != after
        watcher.probe.collect()
        assert watcher.total(before, FAILURES, (("reason", "refused"),)) == 3
        assert watcher.total(after, FAILURES, (("reason", "refused"),)) == 2
    finally:
        os.kill(second, signal.SIGKILL)
        os.waitpid(second, 0)


def _settled(watcher: Watcher, pid: int) -> Process:
    """Wait until a process sleeps in its last line, polling as the agent does."""
    for _ in range(200):
        time.sleep(0.05)
        watcher.probe.poll()
        wchan = Path(f"/proc/{pid}/syscall").read_text().split()[0]
        if wchan == "0" or Path(f"/proc/{pid}/stat").read_text().split()[2] == "S":
            break
    found = Procfs().identify(pid)
    assert found is not None
    return found


class _CloneArguments(ctypes.Structure):
    """struct clone_args of include/uapi/linux/sched.h, as of 5.5."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in (
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
        )
    )


def _spawn_as(pid: int, command: list[str]) -> int:
    """Start a program under a given pid: clone3(2) with set_tid."""
    wanted = (ctypes.c_int * 1)(pid)
    arguments = _CloneArguments(
        exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1
    )
    read_end, write_end = os.pipe()
    libc = ctypes.CDLL(None, use_errno=True)
    child = libc.syscall(435, ctypes.byref(arguments), ctypes.sizeof(arguments))
    if child == 0:
        os.dup2(read_end, 0)
        os.execv(command[0], command)
    assert child == pid, os.strerror(ctypes.get_errno())
    os.write(write_end, b"\n")
    os.close(read_end)
    return pid


def _lossy(pair: Any) -> None:
    pair.lose(20, side=1)


def _until_quiet(pair: Any, watcher: Watcher) -> None:
    before = -1
    while (now := pair.counter(0, "TcpRetransSegs")) != before:
        before = now
        for _ in range(8):
            time.sleep(0.1)
            watcher.probe.poll()
        watcher.probe.collect()
