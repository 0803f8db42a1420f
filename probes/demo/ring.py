"""A ring all-reduce over TCP sockets, for machines without PyTorch.

The algorithm of NCCL and Gloo in its plainest form (Patarasuk and Yuan, "Bandwidth optimal
all-reduce algorithms", 2009): N - 1 rounds that reduce and scatter, N - 1 that gather. Every rank
sends 2 (N - 1) / N of the data.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Float64Array

CONNECT_SECONDS = 30.0
PIECE_BYTES = 1 << 18


@dataclass(slots=True)
class Ring:
    """One rank's place: `following` is the socket to the next rank, `preceding` the one from
    the last. `bytes_sent` counts payload.
    """  # noqa: D205 - one sentence

    rank: int
    size: int
    following: socket.socket
    preceding: socket.socket
    bytes_sent: int = 0

    def all_reduce(self, values: Float64Array) -> Float64Array:
        """The sum over all ranks; every rank must bring the same length."""
        chunks = [chunk.copy() for chunk in np.array_split(values, self.size)]
        for turn in range(self.size - 1):
            give, take = (self.rank - turn) % self.size, (self.rank - turn - 1) % self.size
            chunks[take] += self._exchange(chunks[give], len(chunks[take]))
        for turn in range(self.size - 1):
            give, take = (self.rank - turn + 1) % self.size, (self.rank - turn) % self.size
            chunks[take] = self._exchange(chunks[give], len(chunks[take]))
        return np.concatenate(chunks)

    def close(self) -> None:
        """Close both connections."""
        self.following.close()
        self.preceding.close()

    def _exchange(self, given: Float64Array, length: int) -> Float64Array:
        """Send and receive at once: if all sent first, full socket buffers would lock the ring.

        Raises ConnectionError when a neighbour is gone.
        """
        left = memoryview(given.tobytes())
        taken = bytearray(length * given.itemsize)
        room = memoryview(taken)
        while left or room:
            readable, writable, _ = select.select(
                [self.preceding] if room else [], [self.following] if left else [], []
            )
            if writable:
                sent = self.following.send(left[:PIECE_BYTES])
                self.bytes_sent += sent
                left = left[sent:]
            if readable:
                received = self.preceding.recv_into(room)
                if received == 0:
                    raise ConnectionError("the preceding rank is gone")
                room = room[received:]
        return np.frombuffer(taken, dtype=np.float64).copy()


def join(rank: int, addresses: Sequence[tuple[str, int]]) -> Ring:
    """Take a place in the ring: listen at `addresses[rank]`, connect to the next rank.

    Raises OSError when the next rank does not answer within 30 seconds.
    """
    size = len(addresses)
    with socket.create_server(addresses[rank]) as server:
        server.settimeout(CONNECT_SECONDS)
        following = _connected(addresses[(rank + 1) % size])
        preceding, _ = server.accept()
    for end in (following, preceding):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)
    return Ring(rank, size, following, preceding)


def _connected(address: tuple[str, int]) -> socket.socket:
    deadline = time.monotonic() + CONNECT_SECONDS
    while time.monotonic() < deadline:
        # Refused: the other rank is still starting.
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(address, timeout=CONNECT_SECONDS)
        time.sleep(0.05)
    raise TimeoutError(f"no rank listens at {address[0]}:{address[1]}")
