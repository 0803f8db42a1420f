from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

from probes.tcp_retransmit.growth import Growing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from probes.bpf.maps import Map


class Table:
    """A map of the kernel's, in memory."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        yield from list(self.values.items())

    def take(self, key: bytes) -> bytes | None:
        return self.values.pop(key, None)

    def set(self, key: bytes, first: int, second: int) -> None:
        self.values[key] = struct.pack("=QQ", first, second)


def test_values_are_read_by_what_they_grew_and_still_ones_are_taken_out() -> None:
    table = Table()
    growing = Growing(cast("Map", table))
    table.set(b"a", 3, 1)
    assert list(growing.drain()) == [(b"a", 3, 1)]
    table.set(b"a", 5, 1)
    assert list(growing.drain()) == [(b"a", 2, 0)]
    for _ in range(3):
        assert list(growing.drain()) == []
    assert table.values == {}
    table.set(b"a", 1, 1)
    assert list(growing.drain()) == [(b"a", 1, 1)]


def test_what_grows_while_it_is_taken_out_is_not_lost() -> None:
    class Late(Table):
        def take(self, key: bytes) -> bytes | None:
            self.set(key, 9, 0)
            return super().take(key)

    table = Late()
    growing = Growing(cast("Map", table))
    table.set(b"a", 4, 0)
    drained = [list(growing.drain()) for _ in range(4)]
    assert drained == [[(b"a", 4, 0)], [], [], [(b"a", 5, 0)]]
