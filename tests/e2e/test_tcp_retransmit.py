"""Real loss on a real (virtual) wire: counts agree with the kernel's own, owners are right."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from engine.aggregate.procfs import Procfs
from engine.readings import Count, Event, Gone, ProbeOptions, Process, Watched
from probes.bpf import tracepoint
from probes.bpf.errors import UnavailableError
from probes.tcp_retransmit import layouts
from probes.tcp_retransmit.probe import TcpRetransmitProbe

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from engine.readings import Reading

pytestmark = pytest.mark.root


PORT = 10_000 + os.getpid() % 20_000  # other pairs of this machine may use the same addresses


class Watcher:
    """The probe and everything that it said."""

    def __init__(self) -> None:
        self.probe = TcpRetransmitProbe()
        self.readings: list[Reading] = []
        self.kernel: dict[tuple[int, str], int] = {}

    def start(self, **settings: object) -> None:
        status = self.probe.start(
            ProbeOptions(settings={"sock_diag_share": 1.0, **settings}), self.readings.append
        )
        assert status.state == "attached", status

    def until_done(self, pair: Any, ends: tuple[subprocess.Popen[str], ...]) -> None:
        """Poll as the agent does until both ends are through and the last loss is repaired.

        `kernel` then holds the kernel's own counters, as they stood right before the last look at
        the probe and right after it: a retransmit in between would be in one and not the other.
        """
        for process in ends:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
        waiting = set(ends)
        while waiting:
            self.probe.poll()
            time.sleep(0.1)
            waiting = {p for p in waiting if "done" not in (p.stdout.readline() or "")}  # type: ignore[union-attr]
        before = None
        while self._read(pair) != before:
            before = self.kernel
            time.sleep(0.7)  # more than two of the kernel's shortest retransmission timeouts
            self.probe.poll()
            self.probe.collect()

    def _read(self, pair: Any) -> dict[tuple[int, str], int]:
        names = ("TcpRetransSegs", "TcpOutSegs", "TcpExtTCPRetransFail")
        self.kernel = {(side, name): pair.counter(side, name) for side in (0, 1) for name in names}
        return self.kernel

    def totals(self, metric: str) -> dict[Process | None, float]:
        sums: dict[Process | None, float] = defaultdict(float)
        for reading in self.readings:
            if isinstance(reading, Count) and reading.metric == metric:
                sums[reading.process] += reading.delta
        return sums

    def events(self) -> list[Event]:
        return [reading for reading in self.readings if isinstance(reading, Event)]


def _connected(ends: Any) -> Any:
    """Both ends of `talk(..., hold=True)`: no handshake is lost once they have said so."""
    for end in ends:
        assert end.stdout.readline() == "connected\n"
    return ends


def _go(ends: Any) -> None:
    for end in ends:
        end.stdin.write("\n")
        end.stdin.flush()


def _lose(pair: Any, per_mille: int) -> None:
    for side in (0, 1):
        pair.lose(per_mille, side=side)


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    yield made
    made.probe.stop()


def _process(of: subprocess.Popen[str]) -> Process:
    process = Procfs().identify(of.pid)
    assert process is not None
    return process


@pytest.mark.each_kernel
@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_with_one_segment_per_skb_retransmits_equal_the_kernels_count_and_owners_are_right(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher, v6: bool
) -> None:
    netns_pair.segment(1)
    watcher.start()
    ends = _connected(talk(netns_pair, 20, port=PORT, v6=v6, hold=True))
    _lose(netns_pair, 20)
    _go(ends)
    watcher.until_done(netns_pair, ends)
    retransmits = watcher.totals("tcp_retrans_total")
    # On a crowded machine the kernel skips a program now and then. It is told as lost.
    watcher.probe.produced()
    skipped = dict(watcher.probe.produced().lost)["", "skipped"]
    for side, end in enumerate(ends):
        expected = watcher.kernel[side, "TcpRetransSegs"]
        expected -= watcher.kernel[side, "TcpExtTCPRetransFail"]
        assert expected > 50
        told = (watcher.kernel, retransmits, watcher.probe.produced())
        about = pytest.approx(expected, rel=0.001, abs=skipped + 0.4)
        assert retransmits[_process(end)] == about, f"{side}: {told}"
    _check_events(watcher, ends, netns_pair, v6=v6)


def _check_events(watcher: Watcher, ends: Any, pair: Any, *, v6: bool) -> None:
    addresses = pair.addresses_v6 if v6 else pair.addresses
    mine = [event for event in watcher.events() if PORT in dict(event.fields).values()]
    retransmits = watcher.totals("tcp_retrans_total")
    assert len(mine) == sum(retransmits[_process(end)] for end in ends)
    for event in mine:
        fields = dict(event.fields)
        side = addresses.index(fields["src"])
        assert event.process == _process(ends[side])
        assert fields["dst"] == addresses[1 - side]
        assert PORT in {fields["sport"], fields["dport"]}
        assert str(fields["comm"]).startswith("python")


def test_with_large_skbs_segments_agree_where_events_do_not(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    watcher.start()
    ends = _connected(talk(netns_pair, 60, port=PORT, hold=True))
    _lose(netns_pair, 10)
    _go(ends)
    watcher.until_done(netns_pair, ends)
    segments = watcher.totals("tcp_retrans_segments_total")
    sent = watcher.totals("tcp_segments_out_total")
    for side, end in enumerate(ends):
        expected = watcher.kernel[side, "TcpRetransSegs"]
        assert expected > 20
        assert segments[_process(end)] == pytest.approx(expected, rel=0.02)
        assert sent[_process(end)] == pytest.approx(
            watcher.kernel[side, "TcpOutSegs"] + expected, rel=0.02
        )


def test_a_clean_quiet_network_has_no_retransmit(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    watcher.start()
    ends = talk(netns_pair, 20, port=PORT)
    watcher.until_done(netns_pair, ends)
    for end in ends:
        assert watcher.totals("tcp_retrans_total")[_process(end)] == 0
        assert watcher.totals("tcp_segments_out_total")[_process(end)] > 0


def test_a_connection_older_than_the_agent_is_owned_too_and_counts_from_the_start(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    netns_pair.segment(1)
    ends = _connected(talk(netns_pair, 10, port=PORT, hold=True))
    netns_pair.lose(20)
    watcher.start()
    _go(ends)
    watcher.until_done(netns_pair, ends)
    counted = watcher.totals("tcp_retrans_total")
    assert counted[None] == 0
    assert counted[_process(ends[0])] == netns_pair.counter(0, "TcpRetransSegs") > 0


def test_a_process_is_watched_before_its_first_retransmit_and_gone_after_its_end(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    watcher.start()
    ends = talk(netns_pair, 1, port=PORT)
    watcher.until_done(netns_pair, ends)
    processes = {_process(end) for end in ends}
    watched = {(r.process, *r.metrics) for r in watcher.readings if isinstance(r, Watched)}
    for process in processes:
        assert any(who == process and ("tcp_retrans_total", ()) in rest for who, *rest in watched)
    for end in ends:
        end.communicate()
    watcher.probe.collect()
    assert processes <= {r.process for r in watcher.readings if isinstance(r, Gone)}


def test_the_last_segments_of_a_socket_that_closes_between_two_flushes_are_kept(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    watcher.start()
    client, server = talk(netns_pair, 1, port=PORT)
    watcher.until_done(netns_pair, (client, server))
    process = _process(client)
    counted = watcher.totals("tcp_segments_out_total")[process]
    client.stdin.write("\n")
    client.stdin.flush()
    server.communicate()
    watcher.probe.poll()
    watcher.probe.collect()
    # The FIN and the acknowledgement of the other end's FIN.
    assert watcher.totals("tcp_segments_out_total")[process] > counted


def test_each_leak_is_counted_under_its_own_reason(
    netns_pair: Any, talk: Callable[..., Any], watcher: Watcher
) -> None:
    netns_pair.segment(1)
    _lose(netns_pair, 30)
    watcher.start(ring_pages=1, flows_limit=1, owners_limit=1)
    ends = talk(netns_pair, 5, port=PORT)
    for end in ends:  # nobody drains the ring meanwhile
        assert end.stdout.readline() == "done\n"
    produced = watcher.probe.produced()
    watcher.probe.collect()
    lost = dict(produced.lost)
    assert lost["", "map_full"] > 0
    assert lost["events", "ring_full"] > 0
    assert lost["owners", "map_full"] > 0
    consumed = sum(r.weight for r in watcher.readings if isinstance(r, Count) and not r.stream)
    later = watcher.probe.produced()  # other connections of this machine may have gone on
    for stream, reason, seen in (
        ("", "map_full", consumed),
        ("events", "ring_full", len(watcher.events())),
    ):
        missed = dict(later.lost)[stream, reason] + dict(later.lost)[stream, "skipped"]
        least = dict(produced.produced)[stream] - missed
        most = dict(later.produced)[stream] - lost[stream, reason]
        assert least <= seen <= most


@pytest.mark.parametrize("absent", ["sock_send_length", "inet_sock_set_state"])
def test_on_a_kernel_without_a_tracepoint_owners_come_from_sock_diag(
    netns_pair: Any,
    talk: Callable[..., Any],
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
    absent: str,
) -> None:
    real = tracepoint.read_format

    def older(category: str, event: str) -> Any:
        if event == absent:
            raise UnavailableError("no_tracepoint", "as before 6.3")
        return real(category, event)

    monkeypatch.setattr(layouts, "read_format", older)
    netns_pair.segment(1)
    watcher.start()
    assert absent in watcher.probe.status().detail
    ends = _connected(talk(netns_pair, 10, port=PORT, hold=True))
    _lose(netns_pair, 20)
    _go(ends)
    watcher.until_done(netns_pair, ends)
    for side, end in enumerate(ends):
        expected = watcher.kernel[side, "TcpRetransSegs"]
        expected -= watcher.kernel[side, "TcpExtTCPRetransFail"]
        counted = watcher.totals("tcp_retrans_total")[_process(end)]
        assert expected > 20
        assert counted == pytest.approx(expected, rel=0.02)  # owners are the point here
    mine = [e for e in watcher.events() if PORT in dict(e.fields).values()]
    assert {event.process for event in mine} == {_process(end) for end in ends}


def test_loss_probes_of_a_namespace_belong_to_its_process(
    make_netns_pair: Callable[[str], Any], talk: Callable[..., Any], watcher: Watcher
) -> None:
    pair = make_netns_pair("probes")  # with the kernel's default settings
    watcher.start()
    _lose(pair, 50)
    ends = talk(pair, 2, port=PORT)
    watcher.until_done(pair, ends)
    counted = watcher.totals("tcp_loss_probes_total")
    for side, end in enumerate(ends):
        assert counted[_process(end)] == pair.counter(side, "TcpExtTCPLossProbes")
