"""`/api/v2/status`: version, start, and the configuration of the delivery."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from notifiers.silences.encoding import date_time


@dataclass(frozen=True, slots=True)
class Status:
    """What does not change while the agent runs. `started_at_ms` is unix milliseconds."""

    started_at_ms: int
    original: str

    def encode(self) -> dict[str, Any]:
        """As the API shows it. There is no cluster: each node has its own silences."""
        return {
            "cluster": {"peers": [], "status": "disabled"},
            "config": {"original": self.original},
            "uptime": date_time(self.started_at_ms),
            "versionInfo": {
                "branch": "",
                "buildDate": "",
                "buildUser": "",
                "goVersion": "",
                "revision": "",
                "version": version("stallwatch"),
            },
        }
