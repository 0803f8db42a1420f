"""Silences as a test writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.alerts.matchers import parse_matchers
from notifiers.silences.silence import Silence
from notifiers.silences.store import Silences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def silence(matchers: str = 'alertname="Slow"', *, identity: str = "", **times: Any) -> Silence:
    """Active now for an hour, unless `starts` and `ends` (milliseconds from now) say otherwise."""
    starts, ends = times.pop("starts", 0), times.pop("ends", HOUR_MS)
    return Silence(identity, parse_matchers(matchers), NOW_MS + starts, NOW_MS + ends, **times)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Silences]:
    opened = Silences(str(tmp_path / "state.db"))
    yield opened
    opened.close()


@pytest.fixture
def support() -> Any:
    class Support:
        now_ms = NOW_MS
        hour_ms = HOUR_MS
        silence = staticmethod(silence)

    return Support
