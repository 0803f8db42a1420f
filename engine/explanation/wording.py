"""An explanation in words, every value inert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.alerts.wording import evidence_text, inert
from engine.timestamps import format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COMPARED: Final = {
    ">": "more than",
    ">=": "at least",
    "<": "less than",
    "<=": "at most",
    "==": "equal to",
    "!=": "other than",
}
# The departures of the model behind anomaly_score (docs/anomaly-model.md).
DEPARTURES: Final = {
    "above": "the value above the long-run level",
    "below": "the value below the long-run level",
    "level": "the level of the moment from the long-run level",
    "variance": "the standard deviation of the moment",
    "jump": "the value from the level of the moment before it",
    "hour": "the value from the range of this hour of the day",
    "shape": "the shape of the last 64 points from every earlier one",
}
MOST_EXPRESSION: Final = 400
MOST_PEERS_SHOWN: Final = 8


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The explanation, line by line."""
    labels = {name: own for name, own in found["labels"].items() if name != "alertname"}
    yield f"{inert(found['alertname'])}  {found['state']}, value {shown(found['value'])}"
    if labels:
        yield f"  {_pairs(labels)}"
    if summary := found["annotations"].get("summary"):
        yield f"  {inert(summary)}"
    yield f"  {_times(found)}"
    for part in found["parts"]:
        yield ""
        yield from _part(part)
    if found["evidence"]:
        yield ""
        yield "evidence"
        yield from (f"  - {evidence_text(entry)}" for entry in found["evidence"])


def _times(found: Mapping[str, Any]) -> str:
    said = [f"active since {_moment(found['active_at'])}"]
    if found["fired_at"] is None:
        said.append(f"fires after {found['for']} of that")
    else:
        said.append(f"fired at {_moment(found['fired_at'])}")
    if found["resolved_at"] is not None:
        said.append(f"resolved at {_moment(found['resolved_at'])}")
    if found["held_by"]:
        said.append(f"held by {found['held_by']}")
    return f"{', '.join(said)}; values as of {_moment(found['looked_at'])}"


def _part(part: Mapping[str, Any]) -> Iterator[str]:
    joined = f"{part['joined']} " if part["joined"] else ""
    yield f"{joined}{inert(part['expr'], MOST_EXPRESSION)}"
    if not part["values"]:
        yield "  has no value for these labels"
    for value in part["values"]:
        whose = "" if part["elements"] == 1 else f"{_pairs(value['labels'])}: "
        yield f"  {whose}is {shown(value['value'])}{_compared(part, value)}"
    if (more := part["elements"] - len(part["values"])) > 0:
        yield f"  and {more} more"
    for operand in part.get("operands", ()):
        yield f"  {inert(operand['expr'], MOST_EXPRESSION)} is {shown(operand['value'])}"
    for one in part.get("statistics", ()):
        yield from (f"  {line}" for line in statistic_lines(one))


def _compared(part: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    if not part["op"] or value["threshold"] is None:
        return ""
    said = f"{COMPARED[part['op']]} {shown(value['threshold'])}"
    return f", {said}" if part["holds"] else f", not {said}"


def statistic_lines(one: Mapping[str, Any]) -> Iterator[str]:
    """A statistic: what it is now, and what it is made of."""
    name = one["recorded_as"] or one["function"]
    begin = f"{inert(name)}: " if not one["recorded_as"] else f"{inert(name)}, {one['function']}: "
    yield f"{begin}{_figure(one['function'], one['value'])}"
    if "peers" in one:
        yield from _peers(one)
    elif "strongest" in one:
        yield from _model(one)
    elif one["function"] == "anomaly_score":
        yield "  what was expected at that time is not known any more"
    else:
        yield from _window(one)


def compared(part: Mapping[str, Any]) -> str:
    """What a part compares in a few words, "" where it has no value or more than one."""
    if part["elements"] != 1:
        return ""
    (value,) = part["values"]
    return f"is {shown(value['value'])}{_compared(part, value)}"


def brief(one: Mapping[str, Any]) -> str:
    """A statistic in one line: its value, what was expected, its place or strongest departure."""
    said = [f"{one['function']} is {_figure(one['function'], one['value'])}"]
    if "peers" in one:
        said.append(f"its value {shown(one['value_of'])} is number {one['place']} of {one['size']}")
    if one.get("expected"):
        said.append(f"expected: {_band(one['expected'])}")
    if "strongest" in one:
        said.append(f"strongest: {one['strongest']}, {shown(one['strengths'][one['strongest']])}")
    return "; ".join(said)


def _peers(one: Mapping[str, Any]) -> Iterator[str]:
    place = "the largest" if one["place"] == 1 else f"number {one['place']} from the largest"
    yield (
        f"  its value {shown(one['value_of'])} is {place} of {one['size']}; the others have"
        f" median {shown(one['median'])}, quartiles {shown(one['lower'])} and"
        f" {shown(one['upper'])}"
    )
    if one["expected"]:
        yield f"  expected: {_band(one['expected'])}"
    peers = one["peers"][:MOST_PEERS_SHOWN]
    differing = _differing([own["labels"] for own in [one, *one["peers"]]])
    said = "; ".join(
        f"{_pairs({name: own['labels'].get(name, '') for name in differing})} {shown(own['value'])}"
        for own in peers
    )
    more = one["size"] - 1 - len(peers)
    yield f"  peers: {said}{f'; {more} more' if more else ''}"


def _differing(labels: list[dict[str, str]]) -> list[str]:
    """The names that tell these label sets apart."""
    names = sorted({name for own in labels for name in own})
    return [name for name in names if len({own.get(name) for own in labels}) > 1]


def _model(one: Mapping[str, Any]) -> Iterator[str]:
    strength = one["strengths"][one["strongest"]]
    yield f"  expected: {_band(one['expected'])}; an onset scores {one['onset_from']} or more"
    yield (
        f"  strongest: {one['strongest']}, {DEPARTURES[one['strongest']]}:"
        f" {shown(strength)} times what an onset takes"
    )


def _window(one: Mapping[str, Any]) -> Iterator[str]:
    for name, begin in (("window", ""), ("reference", "against ")):
        if (window := one.get(name)) is not None:
            yield (
                f"  {begin}{window['samples']} samples from {_moment(window['first'])} to"
                f" {_moment(window['last'])}: newest {shown(window['newest'])}, median"
                f" {shown(window['median'])}, quartiles {shown(window['lower'])} and"
                f" {shown(window['upper'])}"
            )
    if "centre" in one:
        yield (
            f"  {one['centre_is']} {shown(one['centre'])}, spread {shown(one['spread'])};"
            f" expected: {_band(one['expected'])} ({one['spreads']:g} spreads)"
        )
    for name, value in one.items():
        if name.endswith(("_over_time", "_pvalue")) and name != one["function"]:
            yield f"  {name} is {_figure(name, value)}"
    if "centre" not in one and one.get("expected"):
        yield f"  expected: {_band(one['expected'])}"


def _figure(name: str, value: float | str) -> str:
    if name == "changepoint_time_over_time" and not isinstance(value, str):
        return _moment(value)
    return shown(value)


def _band(band: list[Any]) -> str:
    low, high = band
    if low is None:
        return f"up to {shown(high)}"
    return f"{shown(low)} to {shown(high)}"


def shown(value: float | str) -> str:
    """A number as people read it; infinities and NaN are words already."""
    return value if isinstance(value, str) else f"{value:.6g}"


def _moment(seconds: float) -> str:
    return format_rfc3339(round(seconds * 1000))


def _pairs(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={inert(value)}" for name, value in sorted(labels.items()))
