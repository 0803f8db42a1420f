"""What can be named in a configuration: receivers and probes, found by entry point."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel

RECEIVERS = "stallwatch.receivers"
PROBES = "stallwatch.probes"


@dataclass(frozen=True, slots=True)
class Kinds:
    """Receiver kinds with a way to get each one's settings class, and probe names."""

    receivers: Mapping[str, Callable[[], type[BaseModel]]] = field(default_factory=dict)
    probes: frozenset[str] = frozenset()


def installed() -> Kinds:
    """Everything that is installed, ours and third parties'.

    A receiver class is imported only when a configuration names its kind.
    """
    return Kinds(
        receivers={
            point.name: partial(_settings_class, point) for point in entry_points(group=RECEIVERS)
        },
        probes=frozenset(point.name for point in entry_points(group=PROBES)),
    )


def _settings_class(point: EntryPoint) -> type[BaseModel]:
    config: type[BaseModel] = point.load().Config
    return config
