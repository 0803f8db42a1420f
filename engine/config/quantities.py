"""Durations and addresses as the configuration writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from engine.address import parse_address
from rules.durations import DurationError, format_duration, parse_duration


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A length of time, in whole milliseconds."""

    ms: int

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.ms / 1000

    def __str__(self) -> str:
        return format_duration(self.ms)


def _duration(value: Any) -> Any:
    if isinstance(value, Interval | dict):
        return value
    try:
        return Interval(parse_duration(str(value)))
    except DurationError as error:
        raise ValueError(str(error)) from None


def _positive(value: Any) -> Any:
    duration = _duration(value)
    if isinstance(duration, Interval) and duration.ms <= 0:
        raise ValueError("must be longer than 0")
    return duration


def _address(value: Any) -> Any:
    parse_address(str(value))
    return value


# The text of a Prometheus duration, `10s`.
Duration = Annotated[Interval, BeforeValidator(_duration), PlainSerializer(str)]
PositiveDuration = Annotated[Interval, BeforeValidator(_positive), PlainSerializer(str)]
Address = Annotated[str, BeforeValidator(_address)]
