"""Durations and addresses as the configuration writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from rules.durations import DurationError, format_duration, parse_duration

_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_HIGHEST_PORT = 65_535


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
    """`host:port`, `[v6]:port` or `:port`."""
    host, separator, port = str(value).rpartition(":")
    if not separator or not _PORT.fullmatch(port) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"not an address: '{value}'; write host:port, such as 127.0.0.1:9466")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"an IPv6 address stands in brackets: '[{host}]:{port}'")
    return value


# The text of a Prometheus duration, `10s`.
Duration = Annotated[Interval, BeforeValidator(_duration), PlainSerializer(str)]
PositiveDuration = Annotated[Interval, BeforeValidator(_positive), PlainSerializer(str)]
Address = Annotated[str, BeforeValidator(_address)]
