"""What of a group fits into a message: the worst alert in full, others in a line, the rest counted.

Lengths are bytes of UTF-8: services count characters, UTF-16 units or bytes, and bytes are the
most of the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from notifiers.messages.order import kinds
from notifiers.notification import status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.alerts.alert import Alert
    from notifiers.messages.composition import Message, Part

MAX_FULL = 10
MAX_SHOWN = 50
# Detail of an alert: everything, no table of evidence, one line.
FULL, SHORT, BRIEF = 0, 1, 2
# How much is said once for all: everything, what fits on a small screen, the bare need.
LEVELS = (0, 1, 2)


class Pieces(Protocol):
    """A message's pieces in one format; laid end to end they are the message."""

    def head(self, level: int) -> str:
        """What stands above the alerts."""
        ...

    def section(self, status: str, count: int) -> str:
        """The heading above a group's firing, or its resolved, alerts."""
        ...

    def part(self, place: int, detail: int) -> str:
        """One alert, counted from 0."""
        ...

    def fold(self, line: str) -> str:
        """The line that counts what is not shown."""
        ...

    def closing(self, level: int) -> str:
        """What stands below the alerts."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """For each part that is shown its detail; `folded` holds the rest."""

    details: tuple[int, ...]
    folded: tuple[Part, ...]


def choose(
    parts: Sequence[Part], room: int, size: Callable[[int, int], int], fold_size: int
) -> Chosen:
    """The most that fits into `room` bytes. `size(place, detail)`: bytes of a part.

    `fold_size`: what has to stay free for the count of those not shown. The first part gets its
    full length before any other is named, as far as that leaves half of the room.
    """
    details = [BRIEF] * _named(parts, room, size, fold_size)
    if len(parts) > 1 and details:
        while len(details) > 1 and not _fits(parts, [FULL, *details[1:]], room, size, fold_size):
            if size(0, FULL) > room // 2:
                break
            details.pop()
    for place in range(min(len(details), MAX_FULL)):
        for detail in (FULL, SHORT):
            tried = [*details[:place], detail, *details[place + 1 :]]
            if _fits(parts, tried, room, size, fold_size):
                details = tried
                break
    return Chosen(tuple(details), tuple(parts[len(details) :]))


@dataclass(frozen=True, slots=True)
class Assembled:
    """A message's text, and how many of its alerts stand in it; the others are counted."""

    text: str
    shown: int


def assemble(message: Message, pieces: Pieces, limit: int) -> Assembled:
    """The message in at most `limit` bytes, as far as the bare need fits into them."""
    known: dict[tuple[int, int], str] = {}

    def part(place: int, detail: int) -> str:
        if (place, detail) not in known:
            known[place, detail] = pieces.part(place, detail)
        return known[place, detail]

    def size(place: int, detail: int) -> int:
        return len(part(place, detail).encode())

    sections = _sections(message, pieces)
    fold_size = len(pieces.fold(_line(message.parts)).encode())
    head = closing = ""
    room = 0
    for level in LEVELS:
        head, closing = pieces.head(level), pieces.closing(level)
        room = limit - len("".join((head, closing, *sections.values())).encode())
        if room >= size(0, BRIEF) + fold_size:
            break
    chosen = choose(message.parts, room, size, fold_size)
    laid = [head]
    for place, detail in enumerate(chosen.details):
        laid.append(sections.pop(message.parts[place].status, ""))
        laid.append(part(place, detail))
    if chosen.folded:
        laid.append(pieces.fold(_line(chosen.folded)))
    return Assembled("".join((*laid, closing)), len(chosen.details))


def fold_line(folded: Sequence[Alert]) -> str:
    """`and 937 more: 900 TcpRetransmitSpike, 37 GpuIdle`."""
    over = sum(status_of(alert) == "resolved" for alert in folded)
    ended = f" ({over} of them resolved)" if 0 < over < len(folded) else ""
    return f"and {len(folded)} more: {kinds(folded)}{ended}"


def _line(folded: Sequence[Part]) -> str:
    return fold_line([part.alert for part in folded])


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character; what is missing is marked."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    mark = "…".encode()
    if limit < len(mark):
        return ""
    return encoded[: limit - len(mark)].decode(errors="ignore") + "…"


def _sections(message: Message, pieces: Pieces) -> dict[str, str]:
    if not message.grouped:
        return {}
    statuses = [part.status for part in message.parts]
    return {status: pieces.section(status, statuses.count(status)) for status in statuses}


def _named(
    parts: Sequence[Part], room: int, size: Callable[[int, int], int], fold_size: int
) -> int:
    """How many fit with a line each."""
    used = 0
    for place in range(min(len(parts), MAX_SHOWN)):
        used += size(place, BRIEF)
        free = room - used - (0 if place + 1 == len(parts) else fold_size)
        if free < 0:
            return place
    return min(len(parts), MAX_SHOWN)


def _fits(
    parts: Sequence[Part],
    details: Sequence[int],
    room: int,
    size: Callable[[int, int], int],
    fold_size: int,
) -> bool:
    used = sum(size(place, detail) for place, detail in enumerate(details))
    return used + (0 if len(details) == len(parts) else fold_size) <= room
