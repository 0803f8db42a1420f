"""Silences as the JSON of Alertmanager's API (api/v2/openapi.yaml: gettable and postable)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from engine.alerts.matchers import Matcher
from engine.timestamps import format_rfc3339, parse_timestamp
from notifiers.silences.silence import Silence

if TYPE_CHECKING:
    from engine.alerts.matchers import Operator

# By (isEqual, isRegex).
_OPERATORS: Final[dict[tuple[bool, bool], Operator]] = {
    (True, False): "=",
    (False, False): "!=",
    (True, True): "=~",
    (False, True): "!~",
}
_FLAGS: Final = {op: flags for flags, op in _OPERATORS.items()}


def _date_time(text: str) -> str:
    if "T" not in text.upper():  # a bare number is a time in Prometheus' API, not here
        raise ValueError(f'must be of type date-time: "{text}"')
    parse_timestamp(text)
    return text


DateTime = Annotated[str, AfterValidator(_date_time)]


class PostableMatcher(BaseModel):
    """A matcher as the API has it."""

    model_config = ConfigDict(strict=True, frozen=True)

    name: str
    value: str
    isRegex: bool  # noqa: N815 - the name in the JSON
    isEqual: bool = True  # noqa: N815 - same

    def matcher(self) -> Matcher:
        """As a value. Raises PatternError for an expression that RE2 refuses."""
        return Matcher(self.name, _OPERATORS[self.isEqual, self.isRegex], self.value)


class PostableSilence(BaseModel):
    """What POST takes, and what `amtool silence query -o json` writes; more is read past."""

    model_config = ConfigDict(strict=True, frozen=True)

    id: str = ""
    matchers: list[PostableMatcher] = Field(min_length=1)
    startsAt: DateTime  # noqa: N815 - the name in the JSON
    endsAt: DateTime  # noqa: N815 - same
    createdBy: str  # noqa: N815 - same
    comment: str
    annotations: dict[str, str] = Field(default_factory=dict)

    def silence(self) -> Silence:
        """As a value. Raises PatternError for an expression that RE2 refuses."""
        return Silence(
            self.id,
            tuple(one.matcher() for one in self.matchers),
            # Go's time that never was lies before 1970.
            max(0, parse_timestamp(self.startsAt)),
            max(0, parse_timestamp(self.endsAt)),
            created_by=self.createdBy,
            comment=self.comment,
            annotations=self.annotations,
        )


class GettableSilence(PostableSilence):
    """What GET answers with."""

    updatedAt: DateTime  # noqa: N815 - the name in the JSON

    def silence(self) -> Silence:
        """As a value. Raises PatternError for an expression that RE2 refuses."""
        return replace(super().silence(), updated_at_ms=max(0, parse_timestamp(self.updatedAt)))


def silence_to_json(silence: Silence, now_ms: int) -> dict[str, Any]:
    """A silence as the API shows it."""
    shown: dict[str, Any] = {
        "id": silence.id,
        "status": {"state": silence.state(now_ms)},
        "updatedAt": date_time(silence.updated_at_ms),
        **_postable(silence),
    }
    return shown


def silence_to_post(silence: Silence) -> dict[str, Any]:
    """A silence as it is posted; one without id becomes a new one."""
    return {"id": silence.id, **_postable(silence)} if silence.id else _postable(silence)


def date_time(time_ms: int) -> str:
    """`2026-01-02T03:04:05.670Z`, always with milliseconds (go-openapi/strfmt)."""
    text = format_rfc3339(time_ms).removesuffix("Z")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<3}Z"


def _postable(silence: Silence) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "comment": silence.comment,
        "createdBy": silence.created_by,
        "endsAt": date_time(silence.ends_at_ms),
        "matchers": [_matcher(one) for one in silence.matchers],
        "startsAt": date_time(silence.starts_at_ms),
    }
    if silence.annotations:
        shown["annotations"] = dict(silence.annotations)
    return shown


def _matcher(matcher: Matcher) -> dict[str, Any]:
    equal, regex = _FLAGS[matcher.op]
    return {"isEqual": equal, "isRegex": regex, "name": matcher.label, "value": matcher.value}
