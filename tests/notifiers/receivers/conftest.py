"""The services of `tests.notifiers.played` on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.notifiers.impostor import playing
from tests.notifiers.played import HOSTS, taken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def services(hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The hook as every service of HOSTS, with a certificate that verifies."""
    hook.always = taken
    with playing(HOSTS, hook.server.RequestHandlerClass, tmp_path, monkeypatch):
        yield hook
