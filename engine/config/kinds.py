"""What can be named in a configuration: receivers and probes, found by entry point."""

from __future__ import annotations

from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel

RECEIVERS = "stallwatch.receivers"
PROBES = "stallwatch.probes"


@dataclass(frozen=True, slots=True)
class Kinds:
    """Receiver kinds and probe names, each with a way to get its settings class.

    A probe without one (None) looks at its settings itself, unchecked.
    """

    receivers: Mapping[str, Callable[[], type[BaseModel]]] = field(default_factory=dict)
    probes: frozenset[str] = frozenset()
    probe_settings: Mapping[str, Callable[[], type[BaseModel] | None]] = field(default_factory=dict)


def installed() -> Kinds:
    """Everything that is installed, ours and third parties'.

    A class is imported only when a configuration names its kind.
    """
    probes = entry_points(group=PROBES)
    return Kinds(
        receivers={
            point.name: partial(_settings_class, point) for point in entry_points(group=RECEIVERS)
        },
        probes=frozenset(point.name for point in probes),
        probe_settings={point.name: partial(_probe_settings, point) for point in probes},
    )


def _settings_class(point: EntryPoint) -> type[BaseModel]:
    config: type[BaseModel] = point.load().Config
    return config


def _probe_settings(point: EntryPoint) -> type[BaseModel] | None:
    try:
        found: type[BaseModel] | None = getattr(point.load(), "Config", None)
    except (ImportError, AttributeError):
        return None  # the agent says of this probe that it cannot be loaded
    return found
