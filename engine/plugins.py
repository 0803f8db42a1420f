"""Probes and delivery, found by entry point. One that cannot be imported is reported, not fatal."""

from __future__ import annotations

import importlib.metadata
import logging
from typing import TYPE_CHECKING, cast

from engine.readings import ProbeStatus, Produced
from rules.errors import StallwatchError
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.protocols import OpenDelivery, Probe
    from engine.readings import ProbeOptions, Reading

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class AbsentProbe:
    """Stands for a probe whose code could not be imported, so that it is off with a reason."""

    name: str
    detail: str
    _status: ProbeStatus = field(init=False)

    def __post_init__(self) -> None:
        self._status = ProbeStatus(
            self.name, "off", "import", self.detail, "install what the message names"
        )

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:  # noqa: ARG002 - the protocol's signature
        """Nothing to attach."""
        return self._status

    def poll(self) -> None:
        """Nothing to drain."""

    def produced(self) -> Produced:
        """Nothing was produced."""
        return Produced(self.name)

    def collect(self) -> None:
        """Nothing to drain."""

    def status(self) -> ProbeStatus:
        """Off."""
        return self._status

    def stop(self) -> None:
        """Nothing to detach."""


def load_probes() -> list[Probe]:
    """An instance of each registered probe, by name."""
    found: list[Probe] = []
    points = importlib.metadata.entry_points(group="stallwatch.probes")
    for point in sorted(points, key=lambda point: point.name):
        try:
            probe = cast("Probe", point.load()())
        except (ImportError, AttributeError) as error:
            LOG.warning("probe %s cannot be loaded: %s", point.name, error)
            probe = AbsentProbe(point.name, str(error))
        found.append(probe)
    return found


def load_delivery() -> OpenDelivery:
    """The registered delivery. Raises StallwatchError when there is none, or it is broken."""
    points: Sequence[importlib.metadata.EntryPoint] = list(
        importlib.metadata.entry_points(group="stallwatch.notifiers")
    )
    if not points:
        raise StallwatchError(
            "stallwatch: no delivery is installed\n    hint: reinstall stallwatch (make venv)"
        )
    return cast("OpenDelivery", points[0].load())
