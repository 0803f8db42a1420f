"""A stage's thread. One that ends before it is told to must never pass unnoticed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeAlias

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    # Hears which stage failed and why.
    OnFault: TypeAlias = Callable[[str, BaseException], None]

LOG = logging.getLogger(__name__)


def ignore_fault(stage: str, error: BaseException) -> None:
    """For a stage that nobody watches; the log has it."""


def start_stage(name: str, body: Callable[[], None], on_fault: OnFault) -> threading.Thread:
    """Run `body` in a thread of its own; whatever it raises is logged and told to `on_fault`.

    SystemExit too: a library that calls `exit` in a thread would end just that thread, silently.
    """

    def run() -> None:
        try:
            body()
        except BaseException as error:
            ours = isinstance(error, StallwatchError)
            LOG.critical("the %s has failed: %s", name, error, exc_info=not ours)
            on_fault(name, error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
