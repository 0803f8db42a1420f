"""The picture that goes with a message: it may fail, and then the message goes without."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from engine.address import local_url
from notifiers.messages.order import worst_first
from notifiers.pictures.hour import History, expression_of
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.config.model import Config
    from notifiers.notification import Notification
    from notifiers.pictures.hour import Hour

logger = logging.getLogger(__name__)

ASK_SECONDS = 3.0
# What is left of that at the least, for the second question.
LEAST_SECONDS = 0.1
DRAW_SECONDS = 10.0
MAX_PICTURE_BYTES = 1_000_000
FILE_NAME = "last-hour.png"
_PNG = b"\x89PNG"


class DrawingError(StallwatchError):
    """There is no picture. The text says why."""


class Pictures:
    """Draws for one target. `failed`: how often there was no picture for a fault."""

    def __init__(self, history: History, folder: Path) -> None:
        self.failed = 0
        self._history = history
        # Where matplotlib keeps what it found out about fonts.
        self._folder = folder

    @classmethod
    def of(cls, config: Config) -> Pictures:
        """Those of the agent that has this configuration."""
        return cls(History(local_url(config.listen)), config.state_dir / "matplotlib")

    def of_notification(self, notification: Notification) -> bytes | None:
        """A PNG of the worst alert's last hour; None where there is nothing to show, or a fault.

        Raises nothing, and takes 13 s at most.
        """
        alert = next((one for one in worst_first(notification.alerts) if expression_of(one)), None)
        if alert is None or notification.test:
            return None
        end_ms = alert.resolved_at_ms or time.time_ns() // 1_000_000
        try:
            deadline = time.monotonic() + ASK_SECONDS
            explained = self._history.explained(alert, ASK_SECONDS)
            if explained is not None:
                return drawn(explained, self._folder)
            left = max(deadline - time.monotonic(), LEAST_SECONDS)
            hour = self._history.hour(alert, end_ms, left)
            return None if hour is None else drawn(described(hour), self._folder)
        except StallwatchError as error:
            self.fault(str(error))
        except Exception as error:
            # An answer that is none of ours, say: whatever it is, it costs nobody the message.
            logger.exception("internal error in a picture")
            self.fault(type(error).__name__)
        return None

    def fault(self, why: str) -> None:
        """Count a picture that is missing, and log the first one."""
        if not self.failed:
            logger.warning("a message goes without its picture: %s", " ".join(why.split())[:300])
        self.failed += 1


def described(hour: Hour) -> dict[str, Any]:
    """An hour as JSON."""
    return {
        "title": hour.title,
        "end_ms": hour.end_ms,
        "threshold": hour.threshold,
        "series": hour.series,
    }


def drawn(shown: Mapping[str, Any], folder: Path) -> bytes:
    """The PNG of an explanation or an hour, made by a process of its own. Raises DrawingError."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "notifiers.pictures.drawing"],
            input=json.dumps(shown).encode(),
            capture_output=True,
            timeout=DRAW_SECONDS,
            check=False,
            env={"MPLCONFIGDIR": str(folder), "PATH": "/usr/bin:/bin"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DrawingError(f"it could not be drawn: {type(error).__name__}") from None
    if done.returncode != 0 or not done.stdout.startswith(_PNG):
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DrawingError(f"it could not be drawn: {said or 'no reason was given'}")
    if len(done.stdout) > MAX_PICTURE_BYTES:
        raise DrawingError("it is too large")
    return done.stdout
