"""The messages of a test against those that it expects: what is missing, other, or too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.ruletest.verdict import Failure, FieldDifference, ItemDifference
from notifiers.deliverytest.pairing import pairs
from notifiers.deliverytest.reasons import why_not
from rules.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.labels import Labels
    from notifiers.deliverytest.model import (
        DeliveryScenario,
        ExpectedMessage,
        Wanted,
        WantedAlert,
    )
    from notifiers.deliverytest.outcome import Outcome, Told
    from rules.source import Source

# More alerts of a message, or messages of a test, than this are counted.
MOST_ALERTS = 10
MOST_MESSAGES = 20


def compare(source: Source, test: DeliveryScenario, outcome: Outcome) -> list[Failure]:
    """What differs; none: all is as expected."""
    heard = {one.value for one in test.receivers}
    told = [one for one in outcome.told if not heard or one.receiver in heard]
    matched = pairs(test.messages, told, _is_meant)
    missing = [one for at, one in enumerate(test.messages) if at not in matched]
    surplus = [one for at, one in enumerate(told) if at not in matched.values()]
    failures = []
    for wanted in missing:
        near = _nearest(wanted, surplus)
        if near is not None:
            surplus.remove(near)
        failures.append(_missed(source, wanted, near, outcome))
    return [*failures, *_unexpected(source, test, surplus)]


def _is_meant(wanted: ExpectedMessage, told: Told) -> bool:
    return (
        wanted.at_ms == told.at_ms
        and _is_to(wanted, told)
        and wanted.reason in {"", told.reason}
        and _are_meant(wanted.firing, told.firing)
        and _are_meant(wanted.resolved, told.resolved)
    )


def _is_to(wanted: ExpectedMessage, told: Told) -> bool:
    if wanted.receiver != told.receiver:
        return False
    return not wanted.integration or any(
        key.removeprefix(f"{told.receiver}/") == wanted.integration for key in told.integrations
    )


def _are_meant(wanted: Wanted, alerts: Sequence[Labels]) -> bool:
    if isinstance(wanted, int):
        return wanted == len(alerts)
    return len(wanted) == len(alerts) == len(pairs(wanted, alerts, _fits))


def _fits(wanted: WantedAlert, labels: Labels) -> bool:
    return all(matcher.matches(labels) for matcher in wanted.matchers)


def _nearest(wanted: ExpectedMessage, surplus: Sequence[Told]) -> Told | None:
    """The one that was probably meant: the likest at that time, or the same at the nearest time."""
    to_it = [one for one in surplus if _is_to(wanted, one)]
    at_it = [one for one in to_it if one.at_ms == wanted.at_ms and _likeness(wanted, one)]
    if at_it:
        return max(at_it, key=lambda one: _likeness(wanted, one))
    alike = [
        one
        for one in to_it
        if _are_meant(wanted.firing, one.firing) and _are_meant(wanted.resolved, one.resolved)
    ]
    return min(alike, key=lambda one: abs(one.at_ms - wanted.at_ms), default=None)


def _likeness(wanted: ExpectedMessage, told: Told) -> int:
    """How many matchers hold for some alert; a bare number says nothing of alerts and fits any."""
    found = 0
    for alerts in (wanted.firing, wanted.resolved):
        if isinstance(alerts, int):
            found += alerts > 0
            continue
        own = [*told.firing, *told.resolved]
        found += sum(max(_held(one, labels) for labels in own) for one in alerts)
    return found


def _held(wanted: WantedAlert, labels: Labels) -> int:
    return sum(matcher.matches(labels) for matcher in wanted.matchers)


def _missed(
    source: Source, wanted: ExpectedMessage, near: Told | None, outcome: Outcome
) -> Failure:
    at = format_duration(wanted.at_ms)
    subject = f"message to {wanted.receiver} at {at}"
    if near is None:
        item = ItemDifference(_spelled_wanted(wanted), None)
        hint = why_not(source, wanted, outcome)
        return Failure(source, wanted.span, subject, "it did not come", (item,), hint)
    fields = tuple(_fields(wanted, near))
    item = ItemDifference(_spelled_wanted(wanted), spelled(near), fields)
    message, hint = "it is another one", ""
    if near.at_ms != wanted.at_ms:
        message = f"it came at {format_duration(near.at_ms)}"
        hint = why_not(source, wanted, outcome)
    return Failure(source, wanted.span, subject, message, (item,), hint)


def _fields(wanted: ExpectedMessage, told: Told) -> Iterator[FieldDifference]:
    if wanted.at_ms != told.at_ms:
        at, came = format_duration(wanted.at_ms), format_duration(told.at_ms)
        yield FieldDifference("part", "at", at, came)
    yield from _alert_fields("firing", wanted.firing, told.firing)
    yield from _alert_fields("resolved", wanted.resolved, told.resolved)
    if wanted.reason not in {"", told.reason}:
        yield FieldDifference("part", "reason", wanted.reason, told.reason)


def _alert_fields(name: str, wanted: Wanted, alerts: Sequence[Labels]) -> Iterator[FieldDifference]:
    if isinstance(wanted, int):
        if wanted != len(alerts):
            yield FieldDifference("part", name, str(wanted), f"{len(alerts)}: {_listed(alerts)}")
        return
    matched = pairs(wanted, alerts, _fits)
    missing = [one.text for at, one in enumerate(wanted) if at not in matched]
    extra = [one for at, one in enumerate(alerts) if at not in matched.values()]
    for text in missing:
        yield FieldDifference("part", name, text, None)
    if extra:
        yield FieldDifference("part", name, None, _listed(extra))


def _unexpected(
    source: Source, test: DeliveryScenario, surplus: Sequence[Told]
) -> Iterator[Failure]:
    """A failure for each receiver that was told what nobody expected."""
    for receiver in dict.fromkeys(one.receiver for one in surplus):
        own = [one for one in surplus if one.receiver == receiver]
        items = [ItemDifference(None, spelled(one)) for one in own[:MOST_MESSAGES]]
        if len(own) > MOST_MESSAGES:
            items.append(ItemDifference(None, f"and {len(own) - MOST_MESSAGES} more"))
        message = f"{len(own)} {'was' if len(own) == 1 else 'were'} not expected"
        yield Failure(source, test.place, f"messages to {receiver}", message, tuple(items))


def spelled(told: Told) -> str:
    """`5m30s  oncall  1 firing {alertname="A"}; 1 resolved {…}  (new alerts added)`."""
    parts = []
    if told.firing:
        parts.append(f"{len(told.firing)} firing {_listed(told.firing)}")
    if told.resolved:
        parts.append(f"{len(told.resolved)} resolved {_listed(told.resolved)}")
    at = format_duration(told.at_ms)
    return f"{at}  {told.receiver}  {'; '.join(parts)}  ({told.reason})"


def _spelled_wanted(wanted: ExpectedMessage) -> str:
    parts = []
    for name, alerts in (("firing", wanted.firing), ("resolved", wanted.resolved)):
        if isinstance(alerts, int):
            parts += [f"{alerts} {name}"] if alerts else []
        elif alerts:
            parts.append(f"{len(alerts)} {name} {_joined([one.text for one in alerts])}")
    reason = f"  ({wanted.reason})" if wanted.reason else ""
    return f"{format_duration(wanted.at_ms)}  {wanted.receiver}  {'; '.join(parts)}{reason}"


def _listed(alerts: Sequence[Labels]) -> str:
    return _joined([str(labels) for labels in alerts])


def _joined(texts: Sequence[str]) -> str:
    shown = " ".join(texts[:MOST_ALERTS])
    return shown if len(texts) <= MOST_ALERTS else f"{shown} and {len(texts) - MOST_ALERTS} more"
