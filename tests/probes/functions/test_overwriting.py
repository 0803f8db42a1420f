"""Probes are taken out of a file by whoever writes into it."""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from probes.bpf.attachment import Attachment
from probes.functions.overwriting import IN_Q_OVERFLOW, Overwriting

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from pathlib import Path

ENTRY = [Attachment(-1)]


class Released:
    """Who lost their probes; `told` once somebody did."""

    def __init__(self) -> None:
        self.owners: list[Hashable] = []
        self.told = threading.Event()

    def __call__(self, owner: Hashable, _: Sequence[Attachment]) -> None:
        self.owners.append(owner)
        self.told.set()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "library.so"
    path.write_bytes(b"code")
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


def test_a_write_takes_out_what_is_held_and_what_is_attached_before_the_file_is_read_again(
    library: int,
) -> None:
    overwriting, released = Overwriting(), Released()
    guarded = overwriting.guard(library, released)
    assert guarded is not None
    overwriting.hold(guarded, "entry", ENTRY)
    os.write(library, b"other")
    assert released.told.wait(30)
    overwriting.hold(guarded, "exit", ENTRY)
    assert (released.owners, guarded.written) == (["entry", "exit"], True)
    overwriting.leave(guarded)


def test_when_the_kernel_dropped_events_every_file_may_have_been_written(library: int) -> None:
    overwriting, released = Overwriting(), Released()
    guarded = overwriting.guard(library, released)
    assert guarded is not None
    overwriting.hold(guarded, "entry", ENTRY)
    overwriting.take_in(struct.pack("=iIII", -1, IN_Q_OVERFLOW, 0, 0))
    assert (released.owners, guarded.written) == (["entry"], True)
    overwriting.leave(guarded)
