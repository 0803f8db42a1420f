"""What a dry-run's alerts would have cost their readers: told by delivery, found by entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config

GROUP = "stallwatch.forecasts"
NIGHT, LOCATION = "22:00-07:00", "Local"


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """`night`: hours such as `22:00-07:00`, at `location`. `silences`: a file, "" for none."""

    night: str = NIGHT
    location: str = LOCATION
    silences: str = ""

    @classmethod
    def of(cls, args: argparse.Namespace) -> ForecastSettings:
        """What the options of `add_options` say."""
        return cls(args.night, args.location, args.silences or "")


class ForecastReport(Protocol):
    """A forecast to be shown."""

    def text(self) -> str:
        """For people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        ...


class Forecaster(Protocol):
    """Looks at a dry-run's alerts."""

    def forecast(self, alerts: Sequence[Alert], start_ms: int, end_ms: int) -> ForecastReport:
        """What alerts, each as it stood in the end, would have cost."""
        ...


class OpenForecaster(Protocol):
    """What an entry point of the group is."""

    def __call__(self, config: Config, settings: ForecastSettings) -> Forecaster:
        """Raises StallwatchError for settings that mean nothing and where nobody is told."""
        ...


def add_options(parser: argparse._ArgumentGroup) -> None:
    """`--night`, `--location`, `--silences`."""
    parser.add_argument(
        "--night",
        metavar="HOURS",
        default=NIGHT,
        help=f"when a message wakes somebody (default: {NIGHT})",
    )
    parser.add_argument(
        "--location",
        metavar="ZONE",
        default=LOCATION,
        help="whose clock that is, such as Europe/Berlin (default: this machine's)",
    )
    parser.add_argument(
        "--silences",
        metavar="FILE",
        help="silences that hold, as 'amtool silence query -o json' writes them",
    )


def load_forecaster() -> OpenForecaster:
    """The registered one. Raises StallwatchError when there is none."""
    points = list(entry_points(group=GROUP))
    if not points:
        hint = "reinstall stallwatch (make venv)"
        raise StallwatchError(f"stallwatch: no delivery is installed\n    hint: {hint}")
    return cast("OpenForecaster", points[0].load())
