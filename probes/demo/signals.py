"""Signals that end a demo, answered by removing what it made."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, the others SystemExit with 128 plus their number.

    Once one came the process is about to end: further ones stay ignored, so that an impatient
    Ctrl-C does not spoil the last words.
    """
    before = {number: signal.signal(number, _end) for number in ENDING}
    ended = False
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        ended = True
        raise
    finally:
        if not ended:
            for number, handler in before.items():
                signal.signal(number, handler)


class Cleanup(ExitStack):
    """An ExitStack that no second Ctrl-C interrupts."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Undo everything, last first."""
        _ignore()
        return bool(super().__exit__(kind, error, trace))


def _ignore() -> None:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
    _ignore()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
