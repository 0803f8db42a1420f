"""Independent items computed on several cores: here, and in forks of this process.

Threads do not serve: numpy gives up the interpreter's lock for a few microseconds at a time, and
two threads that pass it to and fro take longer than one alone. A fork sees all the data as it is,
without a copy, costs about 10 ms, and sends back what it computed through a pipe.

Whatever goes wrong with a fork, be it that there is no room for one, an error of the item or the
end of the process, the item is computed here instead: then it either succeeds or raises as it would
have alone.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import struct
import warnings
from collections import deque
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Condition, Thread
from typing import TYPE_CHECKING, BinaryIO, Generic, TypeAlias, TypeVar

import numpy as np

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

LOG = logging.getLogger(__name__)
Item = TypeVar("Item")
# What a pipe holds before its writer has to wait: a block's result (pipe(7), F_SETPIPE_SZ).
PIPE_BYTES = 2**20
_SET_PIPE_SIZE = 1031
# A fork waits when this much that it computed lies here unasked for, and this process stops to
# compute ahead: what is folded item by item may be many times as large as the memory.
MOST_WAITING_BYTES = 2**28
MOST_AHEAD = 64
_COUNT = struct.Struct("<q")
_FAILED = -1


def computed(compute: Callable[[int], Item], owners: Sequence[int]) -> Generator[Item, None, None]:
    """compute(0), compute(1), …, one for each of `owners`, in order.

    Process 0 is this one, the others are forks; each computes its own items in order. Items have to
    be picklable. Raises as the first item that raises does.
    """
    ahead: dict[int, Item] = {}
    with ExitStack() as stack:
        forks: dict[int, _Fork[Item]] = {}
        for owner in sorted(set(owners) - {0}):
            indices = [index for index, one in enumerate(owners) if one == owner]
            try:
                forks[owner] = stack.enter_context(_Fork(compute, indices))
            except (OSError, RuntimeError) as error:
                LOG.debug("no room for another process or thread: %s", error)
        own = deque(index for index, owner in enumerate(owners) if owner not in forks)
        for index, owner in enumerate(owners):
            fork = forks.get(owner)
            if fork is not None:
                while own and len(ahead) < MOST_AHEAD and not fork.is_ready:
                    if not _compute_ahead(compute, own, ahead):
                        break
                item = fork.next()
                yield compute(index) if item is None else item.value
                continue
            if index not in ahead:
                own.popleft()
                yield compute(index)
            else:
                yield ahead.pop(index)


def _compute_ahead(compute: Callable[[int], Item], own: deque[int], ahead: dict[int, Item]) -> bool:
    """The next item of this process, before its turn; False if it failed: then at its turn."""
    try:
        ahead[own[0]] = compute(own[0])
    except Exception as error:  # noqa: BLE001 - it is raised when it is its turn
        LOG.debug("item %d failed ahead of its turn: %s", own[0], error)
        return False
    own.popleft()
    return True


@dataclass(frozen=True, slots=True)
class _Computed(Generic[Item]):
    value: Item


# An item, None if it has to be computed here, and how many bytes it takes.
_Received: TypeAlias = "tuple[_Computed[Item] | None, int]"


class _Fork(Generic[Item]):
    """A forked process. A thread takes its items off the pipe, so that it seldom has to wait."""

    def __init__(self, compute: Callable[[int], Item], indices: Sequence[int]) -> None:
        """Raises OSError where there can be no process, RuntimeError where no thread."""
        self._items: SimpleQueue[_Received[Item]] = SimpleQueue()
        self._is_over = False
        self._is_left = False
        self._waiting_bytes = 0
        self._changed = Condition()
        reading, self._process = _forked(compute, indices)
        try:
            Thread(target=self._receive, args=(reading, len(indices)), daemon=True).start()
        except RuntimeError:
            os.close(reading)
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            raise

    def __enter__(self) -> _Fork[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        # Not yet waited for, so the number is still its own, and its end is that of the pipe.
        os.kill(self._process, signal.SIGKILL)
        with self._changed:
            self._is_left = True
            self._changed.notify()

    @property
    def is_ready(self) -> bool:
        """Whether `next` need not wait."""
        return self._is_over or not self._items.empty()

    def next(self) -> _Computed[Item] | None:
        """The next of the fork's items; None: it has to be computed here."""
        if self._is_over and self._items.empty():
            return None
        item, nbytes = self._items.get()
        with self._changed:
            self._waiting_bytes -= nbytes
            self._changed.notify()
        return item

    def _receive(self, reading: int, count: int) -> None:
        try:
            with os.fdopen(reading, "rb", buffering=0) as pipe:
                for _ in range(count):
                    received: _Received[Item] = _received(pipe)
                    self._items.put(received)
                    with self._changed:
                        self._waiting_bytes += received[1]
                        self._changed.wait_for(self._has_room)
        except Exception as error:  # noqa: BLE001 - gone, or too large: it is computed here
            LOG.debug("nothing more from a forked process: %s", error)
        finally:
            self._is_over = True
            # Someone may be waiting for it.
            self._items.put((None, 0))
            # The kernel takes a while to take so large a process apart; only this waits for that.
            with self._changed:
                self._changed.wait_for(lambda: self._is_left)
            os.waitpid(self._process, 0)

    def _has_room(self) -> bool:
        return self._is_left or self._waiting_bytes < MOST_WAITING_BYTES


def _forked(compute: Callable[[int], Item], indices: Sequence[int]) -> tuple[int, int]:
    """A process that computes these items: the end of the pipe to read them from, its number."""
    reading, writing = os.pipe()
    try:
        with warnings.catch_warnings():
            # Python warns of locks that other threads may hold: a fork computes, and takes none.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if not process:
        os.close(reading)
        _serve(compute, indices, writing)
    os.close(writing)
    return reading, process


def _serve(compute: Callable[[int], Item], indices: Sequence[int], writing: int) -> None:
    """Compute and send, then end this process; in the fork only. Never returns."""
    status = 1
    try:
        # A terminal's Ctrl-C reaches the whole group: a fork just ends.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A collection would write to every object there is, and so copy the pages that are shared.
        gc.freeze()
        _widen(writing)
        for index in indices:
            _send(writing, _attempted(compute, index))
        status = 0
    finally:
        # Nothing of the parent's is flushed, closed or removed here.
        os._exit(status)


def _widen(pipe: int) -> None:
    import fcntl

    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, PIPE_BYTES)
    except OSError as error:
        LOG.debug("the pipe stays as it is: %s", error)


def _attempted(compute: Callable[[int], Item], index: int) -> _Computed[Item] | None:
    try:
        return _Computed(compute(index))
    except Exception as error:  # noqa: BLE001 - it is raised again where it is computed again
        LOG.debug("item %d failed in a fork: %s", index, error)
        return None


def _send(pipe: int, item: _Computed[Item] | None) -> None:
    """The number of buffers (or that it failed), their sizes, and they themselves."""
    if item is None:
        _write(pipe, memoryview(_COUNT.pack(_FAILED)))
        return
    # Arrays go beside the pickle, as they are (PEP 574).
    beside: list[pickle.PickleBuffer] = []
    text = pickle.dumps(item.value, protocol=5, buffer_callback=beside.append)
    buffers = [memoryview(text), *(one.raw() for one in beside)]
    sizes = b"".join(_COUNT.pack(one.nbytes) for one in buffers)
    for one in (memoryview(_COUNT.pack(len(buffers)) + sizes), *buffers):
        _write(pipe, one)


def _write(pipe: int, data: memoryview) -> None:
    while data.nbytes:
        data = data[os.write(pipe, data) :]


def _received(pipe: BinaryIO) -> _Received[Item]:
    """Raises EOFError when the fork is gone."""
    (count,) = _COUNT.unpack(_read(pipe, _COUNT.size))
    if count == _FAILED:
        return None, 0
    sizes = _read(pipe, count * _COUNT.size)
    text, *beside = (_read(pipe, size) for (size,) in _COUNT.iter_unpack(sizes))
    value: Item = pickle.loads(text, buffers=beside)  # noqa: S301 - from our own fork
    return _Computed(value), text.nbytes + sum(one.nbytes for one in beside)


def _read(pipe: BinaryIO, size: int) -> memoryview:
    # Not a bytearray: that would be filled with zeros first.
    data = np.empty(size, dtype=np.uint8).data
    rest = data
    while rest.nbytes:
        count = pipe.readinto(rest)  # type: ignore[attr-defined]  # a raw file
        if not count:
            raise EOFError("the pipe was closed")
        rest = rest[count:]
    return data
