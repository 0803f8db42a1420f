"""The functions that a message's template may call, by name: one row each.

Go's own, and those of `DefaultFuncs` in Alertmanager's template/template.go (0.34).
"""

from __future__ import annotations

import json
import time
import urllib.parse
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rules.templates.errors import TemplateError
from rules.templates.functions import FUNCTIONS as RULES
from rules.templates.message_values import Strings
from rules.templates.moments import SECOND, Elapsed, Moment
from rules.templates.names import LAZY
from rules.templates.values import Html, Struct, Url, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

# These are the same in the templates of rules.
_SHARED = (
    "call not len index slice print println printf html js urlquery eq ne lt le gt ge toUpper"
    " toLower match reReplaceAll humanizeDuration"
)
_HTML_IN_JSON = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TemplateError(f"{name} needs a string, not {type_name(value)}")
    return value


def _moment(value: Any, name: str) -> Moment:
    if not isinstance(value, Moment):
        raise TemplateError(f"{name} needs a time such as .StartsAt, not {type_name(value)}")
    return value


def _title(value: Any) -> str:
    """A capital at the start of each word, and small letters in it."""
    out, within = [], False
    for char in _text(value, "title"):
        out.append(char.lower() if within else char.title())
        within = char.isalnum() or (within and char in "_'")
    return "".join(out)


def _join(separator: Any, texts: Any) -> str:
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise TemplateError(f"join needs a list of strings, not {type_name(texts)}")
    return _text(separator, "join").join(texts)


def _string_slice(*texts: Any) -> Strings:
    return Strings(_text(one, "stringSlice") for one in texts)


def _in_zone(name: Any, moment: Any) -> Moment:
    found = _moment(moment, "tz")
    seconds = found.nanoseconds // SECOND
    try:
        zone = ZoneInfo(_text(name, "tz"))
        local = datetime.fromtimestamp(seconds, zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        raise TemplateError(f"tz: there is no time zone '{name}' for this time") from None
    offset = local.utcoffset()
    away = 0 if offset is None else round(offset.total_seconds())
    return Moment(found.nanoseconds, away, local.tzname() or "UTC")


def _unescaped(text: Any) -> str:
    found = _text(text, "urlUnescape")
    try:
        return urllib.parse.unquote_plus(found, errors="strict")
    except UnicodeDecodeError:
        raise TemplateError("urlUnescape: not UTF-8 behind the escapes") from None


def _json(value: Any) -> str:
    """As Go's json.Marshal: no spaces, and nothing that HTML would take for markup."""
    shown = json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)
    return "".join(_HTML_IN_JSON.get(char, char) for char in shown)


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {_spelled(name): _plain(one) for name, one in value.fields.items()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in sorted(value.items())}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Moment):
        return value.formatted("2006-01-02T15:04:05.999999999Z07:00")
    return value.nanoseconds if isinstance(value, Elapsed) else value


# As the webhook's JSON spells the fields of `Data` and `Alert`.
_SPELLED = {"ExternalURL": "externalURL", "GeneratorURL": "generatorURL", "Name": "Name",
            "Value": "Value", "NotificationReason": "notification_reason"}  # fmt: skip


def _spelled(name: str) -> str:
    return _SPELLED.get(name, f"{name[:1].lower()}{name[1:]}")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: RULES[name] for name in _SHARED.split()},
    "title": _title,
    "trimSpace": lambda value: _text(value, "trimSpace").strip(),
    "join": _join,
    "stringSlice": _string_slice,
    "safeHtml": lambda value: Html(_text(value, "safeHtml")),
    "safeUrl": lambda value: Url(_text(value, "safeUrl")),
    "urlUnescape": _unescaped,
    "date": lambda layout, moment: _moment(moment, "date").formatted(_text(layout, "date")),
    "tz": _in_zone,
    "since": lambda moment: Elapsed(time.time_ns() - _moment(moment, "since").nanoseconds),
    "toJson": _json,
}
NAMES = frozenset({*FUNCTIONS, *LAZY})
