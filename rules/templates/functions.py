"""The functions that a template may call, by name: one row each.

`and` and `or` are missing: they evaluate their arguments one by one (see expand.py).
"""

from __future__ import annotations

import math
import urllib.parse
from typing import TYPE_CHECKING, Any

from rules.durations import DurationError, parse_duration
from rules.templates import humanize
from rules.templates.errors import TemplateError
from rules.templates.escaping import escape_html, escape_js
from rules.templates.hosts import strip_domain, strip_port
from rules.templates.moments import Elapsed, Moment
from rules.templates.patterns import matches, replace_all
from rules.templates.printf import sprintf
from rules.templates.printing import sprint, sprint_shown, sprintln
from rules.templates.values import Arguments, Html, Sample, equal, less, truth, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_ARGUMENTS = 10_000


def _eq(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("eq needs two values")
    return any(equal(first, other) for other in others)


def _len(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, dict | list):
        return len(value)
    raise TemplateError(f"len of type {type_name(value)}")


def _index(value: Any, *keys: Any) -> Any:
    if value is None:
        raise TemplateError("index of untyped nil")
    for key in keys:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key, "")
        elif isinstance(value, list | str) and isinstance(key, int):
            items = value.encode() if isinstance(value, str) else value
            if not 0 <= key < len(items):
                raise TemplateError(f"index out of range: {key}")
            value = items[key]
        else:
            raise TemplateError(f"can't index {type_name(value)} with {type_name(key)}")
    return value


def _slice(value: Any, *bounds: int) -> Any:
    items = value.encode() if isinstance(value, str) else value
    if not isinstance(items, bytes | list) or len(bounds) > 2:
        raise TemplateError(f"slice of type {type_name(value)}")
    start, end = (*bounds, 0, len(items))[:2] if not bounds else (*bounds, len(items))[:2]
    if not 0 <= start <= end <= len(items):
        raise TemplateError(f"slice out of range: {start}:{end}")
    cut = items[start:end]
    return cut.decode(errors="replace") if isinstance(cut, bytes) else cut


def _call(function: Any, *_: Any) -> Any:
    """Nothing that a template of Prometheus can hold is a function."""
    if function is None:
        raise TemplateError("call of nil")
    raise TemplateError(f"non-function of type {type_name(function)}")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TemplateError(f"{name} needs a string, not {type_name(value)}")
    return value


def _printf(pattern: Any, *values: Any) -> str:
    return sprintf(_text(pattern, "printf"), values)


def _title(value: Any) -> str:
    """Go's strings.Title: a letter after what separates words."""
    previous, out = " ", []
    for char in _text(value, "title"):
        out.append(_titled(char) if _separates(previous) else char)
        previous = char
    return "".join(out)


def _titled(char: str) -> str:
    title = char.title()
    return title if len(title) == 1 else char


def _separates(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not char.isalnum() and char.isspace()


def _match(pattern: Any, text: Any) -> bool:
    return matches(_text(pattern, "match"), _text(text, "match"))


def _replace_all(pattern: Any, replacement: Any, text: Any) -> str:
    name = "reReplaceAll"
    return replace_all(_text(pattern, name), _text(replacement, name), _text(text, name))


def _parse_duration(value: Any) -> float:
    try:
        return parse_duration(_text(value, "parseDuration")) / 1000
    except DurationError as error:
        raise TemplateError(str(error)) from None


def _result(value: Any, name: str) -> list[Sample]:
    if not isinstance(value, list):
        raise TemplateError(f"{name} needs the result of a query, not {type_name(value)}")
    return value


def _sample(value: Any, name: str) -> Sample:
    if not isinstance(value, Sample):
        hint = "; take one with 'first'" if isinstance(value, list) else ""
        raise TemplateError(f"{name} needs one sample, not {type_name(value)}{hint}")
    return value


def _first(value: Any) -> Sample:
    samples = _result(value, "first")
    if not samples:
        raise TemplateError("first() called on vector with no elements")
    return samples[0]


def _sort_by_label(label: Any, value: Any) -> list[Sample]:
    name = _text(label, "sortByLabel")
    return sorted(_result(value, "sortByLabel"), key=lambda sample: sample.labels.get(name, ""))


def _link(tab: int) -> Callable[[Any], str]:
    def link(expression: Any) -> str:
        query = urllib.parse.quote_plus(_text(expression, "a link"), safe="")
        return f"/graph?g0.expr={query}&g0.tab={tab}"

    return link


def _arguments(*values: Any) -> Arguments:
    found = Arguments({f"arg{index}": value for index, value in enumerate(values)})
    if found.size > LARGEST_ARGUMENTS:
        raise TemplateError(f"args with more than {LARGEST_ARGUMENTS:,} values")
    return found


def _to_time(value: Any) -> Moment:
    number = humanize.to_float(value)
    if not math.isfinite(number):
        raise TemplateError("a time cannot be NaN or infinite")
    return humanize.moment_of(number)


def _to_duration(value: Any) -> Elapsed:
    nanoseconds = humanize.to_float(value) * 1e9
    if not abs(nanoseconds) < 2**63:
        raise TemplateError("a duration is below 292 years")
    return Elapsed(int(nanoseconds))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # Go's own
    "call": _call,
    "not": lambda value: not truth(value),
    "len": _len,
    "index": _index,
    "slice": _slice,
    "print": lambda *values: sprint(values),
    "println": lambda *values: sprintln(values),
    "printf": _printf,
    "html": lambda *values: escape_html(sprint_shown(values)),
    "js": lambda *values: escape_js(sprint_shown(values)),
    "urlquery": lambda *values: urllib.parse.quote_plus(sprint_shown(values), safe=""),
    "eq": _eq,
    "ne": lambda first, second: not equal(first, second),
    "lt": less,
    "le": lambda first, second: less(first, second) or equal(first, second),
    "gt": lambda first, second: less(second, first),
    "ge": lambda first, second: less(second, first) or equal(first, second),
    # Prometheus' numbers and times
    "humanize": humanize.humanize,
    "humanize1024": humanize.humanize1024,
    "humanizeDuration": humanize.humanize_duration,
    "humanizePercentage": humanize.humanize_percentage,
    "humanizeTimestamp": humanize.humanize_timestamp,
    "toTime": _to_time,
    "toDuration": _to_duration,
    "parseDuration": _parse_duration,
    # Prometheus' strings
    "title": _title,
    "toUpper": lambda value: _text(value, "toUpper").upper(),
    "toLower": lambda value: _text(value, "toLower").lower(),
    "match": _match,
    "reReplaceAll": _replace_all,
    "stripPort": lambda value: strip_port(_text(value, "stripPort")),
    "stripDomain": lambda value: strip_domain(_text(value, "stripDomain")),
    "safeHtml": lambda value: Html(_text(value, "safeHtml")),
    "urlQueryEscape": lambda value: urllib.parse.quote_plus(_text(value, "urlQueryEscape")),
    "graphLink": _link(0),
    "tableLink": _link(1),
    "args": _arguments,
    # Prometheus' query results
    "first": _first,
    "label": lambda name, sample: _sample(sample, "label").labels.get(_text(name, "label"), ""),
    "value": lambda sample: _sample(sample, "value").value,
    "strvalue": lambda sample: _sample(sample, "strvalue").labels.get("__value__", ""),
    "sortByLabel": _sort_by_label,
}
