"""What was expected against what there is: nothing, or the differences, item by item."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from engine.labels import quote
from engine.promql.numbers import format_general
from engine.ruletest.verdict import FieldDifference, ItemDifference
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.alerts.alert import Alert
    from engine.ruletest.model import ExpectedAlert, ExpectedSample

_NAME = "__name__"


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a result: a value, or the canonical text of a native histogram."""

    labels: dict[str, str]
    value: float
    histogram: str = ""


@dataclass(frozen=True, slots=True)
class _Item:
    """An alert or sample as named fields, which is all that a comparison needs."""

    labels: dict[str, str]
    annotations: dict[str, str]
    value: float | None = None
    histogram: str = ""

    def equals(self, other: _Item, same: Callable[[float, float], bool]) -> bool:
        if self.labels != other.labels or self.annotations != other.annotations:
            return False
        if self.histogram or other.histogram:
            return self.histogram == other.histogram
        if self.value is None or other.value is None:
            return True
        return same(self.value, other.value)

    @property
    def shown_value(self) -> str:
        """All digits, so that a difference in the last one is seen."""
        return self.histogram or format_general(self.value or 0.0)

    def likeness(self, other: _Item) -> tuple[int, int]:
        """How much two have in common; labels say more than annotations."""
        labels = len(self.labels.items() & other.labels.items())
        return labels, len(self.annotations.items() & other.annotations.items())

    def __str__(self) -> str:
        if self.histogram:
            return f"{spelled(self.labels)} {self.histogram}"
        if self.value is not None:
            return f"{spelled(self.labels)} {format_general(self.value)}"
        text = spelled(self.labels)
        if self.annotations:
            text += f" with annotations {spelled(self.annotations)}"
        return text


def spelled(labels: dict[str, str]) -> str:
    """`name{a="b"}`; an empty value is shown, since it is a difference."""
    pairs = (f"{name}={quote(value)}" for name, value in sorted(labels.items()) if name != _NAME)
    name, block = labels.get(_NAME, ""), ", ".join(pairs)
    return f"{name}{{{block}}}" if block or not name else name


def compare_alerts(
    expected: Iterable[ExpectedAlert], firing: Iterable[Alert]
) -> tuple[ItemDifference, ...]:
    """Labels and annotations, exactly; their order does not matter."""
    wanted = [_Item(alert.labels, alert.annotations) for alert in expected]
    there = [_Item(alert.labels.to_dict(), dict(alert.annotations)) for alert in firing]
    return _differences(wanted, there, _exactly)


def compare_samples(
    expected: Iterable[ExpectedSample], got: Iterable[Sample], *, fuzzy: bool
) -> tuple[ItemDifference, ...]:
    """Labels exactly, and values: exactly too, or `fuzzy` with their neighbours."""
    wanted = [_Item(sample.labels, {}, sample.value, sample.histogram) for sample in expected]
    there = [_Item(sample.labels, {}, sample.value, sample.histogram) for sample in got]
    return _differences(wanted, there, _nearly if fuzzy else _exactly)


def _exactly(first: float, second: float) -> bool:
    return first == second


def _nearly(first: float, second: float) -> bool:
    """Equal but for the last bit of the mantissa."""
    return first == second or second in {
        float(np.nextafter(first, -math.inf)),
        float(np.nextafter(first, math.inf)),
    }


def _differences(
    expected: Sequence[_Item], got: Sequence[_Item], same: Callable[[float, float], bool]
) -> tuple[ItemDifference, ...]:
    """What is left when equal items are taken off both sides, the likeliest ones paired."""
    surplus = list(got)
    missing = []
    for item in expected:
        match = next((other for other in surplus if item.equals(other, same)), None)
        if match is None:
            missing.append(item)
        else:
            surplus.remove(match)
    found = []
    for item in missing:
        partner = _partner(item, surplus)
        if partner is None:
            found.append(ItemDifference(str(item), None))
        else:
            surplus.remove(partner)
            fields = tuple(_fields(item, partner, same))
            found.append(ItemDifference(str(item), str(partner), fields))
    found += [ItemDifference(None, str(item)) for item in surplus]
    return tuple(found)


def _partner(item: _Item, candidates: Sequence[_Item]) -> _Item | None:
    """The one that was probably meant: most in common, and of labels more than nothing."""
    best = max(candidates, key=item.likeness, default=None)
    if best is None or (item.labels and best.labels and not item.likeness(best)[0]):
        return None
    return best


def _fields(
    expected: _Item, got: _Item, same: Callable[[float, float], bool]
) -> Iterable[FieldDifference]:
    for name in sorted(expected.labels.keys() | got.labels.keys()):
        pair = expected.labels.get(name), got.labels.get(name)
        if pair[0] != pair[1]:
            yield FieldDifference("label", name, *pair)
    for name in sorted(expected.annotations.keys() | got.annotations.keys()):
        pair = expected.annotations.get(name), got.annotations.get(name)
        if pair[0] != pair[1]:
            yield FieldDifference("annotation", name, *pair)
    if expected.histogram or got.histogram:
        if expected.histogram != got.histogram:
            yield FieldDifference("value", "", expected.shown_value, got.shown_value)
        return
    if expected.value is None or got.value is None or same(expected.value, got.value):
        return
    yield FieldDifference("value", "", expected.shown_value, got.shown_value)
