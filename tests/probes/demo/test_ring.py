"""The demo's ring all-reduce, its ranks being threads on loopback."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from probes.demo.ring import Ring, join

if TYPE_CHECKING:
    from engine.series import Float64Array


def _free_addresses(size: int) -> list[tuple[str, int]]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    addresses = [server.getsockname()[:2] for server in servers]
    for server in servers:
        server.close()
    return addresses


def _reduced(values: list[Float64Array]) -> list[tuple[Float64Array, int]]:
    """What each rank got, and the bytes it sent."""
    addresses = _free_addresses(len(values))

    def run(rank: int) -> tuple[Float64Array, int]:
        ring: Ring = join(rank, addresses)
        try:
            return ring.all_reduce(values[rank]), ring.bytes_sent
        finally:
            ring.close()

    with ThreadPoolExecutor(len(values)) as pool:
        return list(pool.map(run, range(len(values))))


@pytest.mark.parametrize(("size", "length"), [(2, 1000), (2, 1), (3, 1000), (4, 200_003)])
def test_every_rank_gets_the_exact_sum(size: int, length: int) -> None:
    random = np.random.default_rng(size)
    # Whole numbers, so that no order of additions changes a bit.
    values = [random.integers(-1000, 1000, length).astype(np.float64) for _ in range(size)]
    for result, _ in _reduced(values):
        np.testing.assert_array_equal(result, np.sum(values, axis=0))


def test_two_ranks_send_their_data_once_each_and_not_a_byte_more() -> None:
    # 4 MiB: more than socket buffers hold, so that a ring that sends first would hang.
    values = [np.ones(524_288), np.ones(524_288)]
    assert [sent for _, sent in _reduced(values)] == [values[0].nbytes, values[1].nbytes]


def test_a_rank_whose_neighbour_is_gone_says_so() -> None:
    ours, theirs = socket.socketpair()
    following, sink = socket.socketpair()
    theirs.close()
    with pytest.raises(ConnectionError, match="gone"):
        Ring(0, 2, following, ours).all_reduce(np.ones(10))
    for end in (ours, following, sink):
        end.close()
