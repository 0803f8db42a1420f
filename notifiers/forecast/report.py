"""A forecast as a table for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.alerts.wording import inert
from engine.timestamps import format_rfc3339, unix_seconds
from notifiers.cli.silence_file import read_silences
from notifiers.dispatch.group import is_firing
from notifiers.forecast.counts import forecast
from notifiers.forecast.night import Night
from notifiers.simulation import Setup
from rules.errors import StallwatchError
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.forecasts import ForecastSettings
    from notifiers.forecast.counts import Forecast, MessageCounts
    from notifiers.silences.silence import Silence
    from notifiers.simulation import Sent

_HEAD = ("receiver", "messages", "at night", "repeats", "resolved", "inhibited", "muted",
         "silenced", "limited", "busiest hour")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeliveryForecaster:
    """`engine.forecasts.Forecaster`. `keeps_sent`: so that each message can be listed."""

    setup: Setup
    night: Night
    silences: tuple[Silence, ...]
    keeps_sent: bool = False

    def forecast(self, alerts: Sequence[Alert], start_ms: int, end_ms: int) -> Report:
        """See `engine.forecasts.Forecaster`."""
        found = forecast(
            self.setup, alerts, start_ms, end_ms, self.night, self.silences, self.keeps_sent
        )
        return Report(found)


def open_forecaster(
    config: Config, settings: ForecastSettings, *, keeps_sent: bool = False
) -> DeliveryForecaster:
    """See `engine.forecasts.OpenForecaster`."""
    night = Night.read(settings.night, settings.location)
    silences = tuple(read_silences(settings.silences)) if settings.silences else ()
    setup = Setup.of(config)
    if not setup.to:
        raise StallwatchError("stallwatch: the configuration names no receiver (see --config)")
    return DeliveryForecaster(setup, night, silences, keeps_sent)


@dataclass(frozen=True, slots=True)
class Report:
    """`engine.forecasts.ForecastReport`."""

    forecast: Forecast

    def text(self) -> str:
        """A line for each receiver, and below it for each integration where it has several."""
        found = self.forecast
        days = f"{(found.end_ms - found.start_ms) / 86_400_000:.3g}"
        alerts = f"{found.alerts} alert{'' if found.alerts == 1 else 's'}"
        unit = "day" if days == "1" else "days"
        head = f"{alerts} in {days} {unit} would have been told so (night: {found.night}):"
        rows = [list(_HEAD), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        lines = [_aligned(row, widths) for row in rows]
        return "\n".join([head, "", *lines])

    def _rows(self) -> Iterator[list[str]]:
        for receiver, counts in self.forecast.receivers.items():
            kept_back = [str(len(alerts)) for alerts in counts.kept_back.values()]
            last = [str(counts.all.limited), self._hour(counts.all)]
            yield [inert(receiver), *self._counts(counts.all), *kept_back, *last]
            if len(counts.integrations) < 2:
                continue
            for key, own in counts.integrations.items():
                none = [""] * len(kept_back)
                last = [str(own.limited), self._hour(own)]
                yield [f"  {inert(key)}", *self._counts(own), *none, *last]

    @staticmethod
    def _counts(own: MessageCounts) -> list[str]:
        return [str(one) for one in (own.messages, own.at_night, own.repeats, own.resolved)]

    def _hour(self, counts: MessageCounts) -> str:
        if counts.busiest is None:
            return "-"
        hour_ms, most = counts.busiest
        return f"{most}, {self.forecast.night.local(hour_ms):%a %Y-%m-%d %H:%M}"

    def to_json(self) -> dict[str, Any]:
        """Times are unix seconds. `messages` are there where they were kept."""
        found = self.forecast
        shown: dict[str, Any] = {
            "start": unix_seconds(found.start_ms),
            "end": unix_seconds(found.end_ms),
            "alerts": found.alerts,
            "night": str(found.night),
            "receivers": [
                {
                    "receiver": receiver,
                    **_json(counts.all),
                    **{name: len(alerts) for name, alerts in counts.kept_back.items()},
                    "integrations": [
                        {"integration": key, **_json(own)}
                        for key, own in counts.integrations.items()
                    ],
                }
                for receiver, counts in found.receivers.items()
            ],
        }
        return shown

    def each(self) -> Iterator[str]:
        """A line for each message that was kept."""
        for sent in self.forecast.sent:
            firing = sum(map(is_firing, sent.message.alerts))
            counts = f"{firing} firing, {len(sent.message.alerts) - firing} resolved"
            group = inert(sent.message.group_key)
            when = format_rfc3339(sent.time_ms)
            yield f"{when}  {sent.message.integration}  {group}  {counts}: {sent.message.reason}"

    def messages(self) -> list[dict[str, Any]]:
        """The same as JSON."""
        return [_message(sent) for sent in self.forecast.sent]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first column and the last are texts, those between are numbers."""
    first, *numbers, last = row
    width, *between = widths[:-1]
    cells = [f"{text:>{size}}" for text, size in zip(numbers, between, strict=True)]
    return "  ".join([f"{first:<{width}}", *cells, last]).rstrip()


def _json(counts: MessageCounts) -> dict[str, Any]:
    busiest = counts.busiest
    hour = busiest and {"start": unix_seconds(busiest[0]), "messages": busiest[1]}
    return {
        "messages": counts.messages,
        "at_night": counts.at_night,
        "repeats": counts.repeats,
        "resolved": counts.resolved,
        "limited": counts.limited,
        "busiest_hour": hour,
    }


def _message(one: Sent) -> dict[str, Any]:
    message = one.message
    told = [(is_firing(each), message.labels_of(each).to_dict()) for each in message.alerts]
    return {
        "time": unix_seconds(one.time_ms),
        "receiver": message.receiver,
        "integration": message.integration,
        "group": message.group_key,
        "reason": message.reason,
        "firing": [labels for fires, labels in told if fires],
        "resolved": [labels for fires, labels in told if not fires],
    }
