"""A silence as a value (silence/silence.go in Alertmanager)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.alerts.matchers import Matcher

State: TypeAlias = Literal["pending", "active", "expired"]
# Year 9999: what RFC 3339 and so every reader of a silence can say.
LATEST_MS = 253_402_300_799_999


class SilenceError(StallwatchError):
    """A silence that cannot be, or not be changed like that."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Between two times no notification is sent of an alert that all of `matchers` match.

    Times are unix milliseconds. `id` is "" for one that was not stored yet. `annotations` are
    anyone's notes, such as the link to a ticket; nothing here reads them.
    """

    id: str
    matchers: tuple[Matcher, ...]
    starts_at_ms: int
    ends_at_ms: int
    updated_at_ms: int = 0
    created_by: str = ""
    comment: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def state(self, now_ms: int) -> State:
        """Where it stands: it holds from its start on and no more at its end.

        Alertmanager's nanoseconds let it disagree with itself on the very end (`getState` and
        `CurrentState`); in milliseconds a silence that was expired has to be so at once.
        """
        if now_ms >= self.ends_at_ms:
            return "expired"
        return "pending" if now_ms < self.starts_at_ms else "active"


def check(silence: Silence) -> None:
    """Raise SilenceError for one that Alertmanager refuses, in its words (`validateSilence`).

    A silence must not match all there is by mistake: one matcher at least asks for something.
    """
    if not silence.matchers:
        raise SilenceError("invalid silence: at least one matcher required")
    for place, matcher in enumerate(silence.matchers):
        if not matcher.label:
            raise SilenceError(
                f'invalid silence: invalid label matcher {place}: invalid label name ""'
            )
    if all(_matches_empty(matcher) for matcher in silence.matchers):
        raise SilenceError("invalid silence: at least one matcher must not match the empty string")
    if silence.ends_at_ms < silence.starts_at_ms:
        raise SilenceError("invalid silence: end time must not be before start time")
    if not 0 <= silence.starts_at_ms <= silence.ends_at_ms <= LATEST_MS:
        raise SilenceError("invalid silence: its times must lie between 1970 and 9999")
    if not all(map(_is_text, _texts(silence))):
        raise SilenceError("invalid silence: a text in it is not valid UTF-8")


def _matches_empty(matcher: Matcher) -> bool:
    return matcher.op in {"=", "=~"} and matcher.matches({})


def _texts(silence: Silence) -> Iterable[str]:
    for matcher in silence.matchers:
        yield from (matcher.label, matcher.value)
    yield from (silence.created_by, silence.comment)
    for pair in silence.annotations.items():
        yield from pair


def _is_text(text: str) -> bool:
    """JSON's escapes can spell half a character, which no file can hold."""
    return not any("\ud800" <= char <= "\udfff" for char in text)
