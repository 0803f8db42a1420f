"""`/api/v2/status`: version, start, and the configuration of the delivery."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import yaml

from notifiers.silences.encoding import date_time

if TYPE_CHECKING:
    from engine.config.model import Config


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


def original(config: Config) -> str:
    """The routing of a configuration as an Alertmanager's, so that amtool reads it.

    Of a receiver only the name is told: addresses are often secrets, and apprise is nothing that
    amtool knows.
    """
    receivers = [{"name": one.name} for one in config.receivers]
    shown: dict[str, Any] = {"receivers": receivers}
    if config.route is not None:
        shown = {"route": {"receiver": config.route.receiver}, **shown}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
