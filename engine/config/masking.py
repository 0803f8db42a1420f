"""Keeps secrets out of the lines that error messages show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.slotted import replace
from rules.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.source import Problem, Span

# What looks secret even where the file is too broken to know: the rest of a URL, and the value
# of a telling key. `env:` and `..._file` values say only where a secret is kept.
_URL = re.compile(r"(?<=://)[^\s,}\]'\"]+")
_TELLING = re.compile(
    r"(?i:(?<=password:)|(?<=token:)|(?<=secret:)|(?<=credentials:)|(?<=key:)|(?<=\burl:))"
    r"[ ]+(?!env:)(?=\S)"
)
_TELLS = re.compile(r"(?i:passw|token|secret|credential|key|url|auth)")
# A mapping in braces that begins on the line: a value ends where the next name or the end stands,
# not at the first comma, which may be the secret's own.
_BRACE = re.compile(r"(?:^|[\[{,]|:[ ]|-[ ])[ ]*\{(?!\{)", re.MULTILINE)
_QUOTED = re.compile(r"(?:\"(?:\\.|[^\"\\\n])*\"|'(?:''|[^'\n])*')(?=[ ]*[,}\]\n]|[ ]*$)")
_TO_NEXT = re.compile(r"[^\n]+?(?=,[ ]*[A-Za-z_]+:[ ]|[ ]*[}\]][ ,}\]]*$|$)", re.MULTILINE)

# Where the file's structure is not understood, any word of a file with receivers may be a secret,
# but not what follows a name that never has one.
_BROKEN = frozenset({"yaml", "receiver"})
_RECEIVERS = "_configs"
_WORD = re.compile(r"[^\s{}\[\],'\"]+")
_KEY = re.compile(r"[\w-]*:")
_PLAIN = re.compile(r"[\w.@#+*/<>-]{1,80}(?::\d{1,5})?")
_ORDINARY = frozenset({
    "alertname", "batch", "calm", "changes", "channel", "cluster", "compat", "continue", "enabled",
    "evaluation_interval", "events", "flush_interval", "format", "from", "group_by",
    "group_interval", "group_wait", "hello", "listen", "log", "lookback", "max_alerts",
    "max_bytes", "max_messages", "max_wait", "message_strategy", "messages", "metrics", "name",
    "node", "per", "picture", "receiver", "repeat_interval", "require_tls", "restart_grace",
    "rule_files", "send_resolved", "severity", "short_fields", "size", "smarthost", "state_dir",
    "task_id", "templates", "tier", "timeout_seconds", "to", "update_message", "window",
})  # fmt: skip


def masked(problems: Iterable[Problem], secrets: Iterable[Span]) -> tuple[Problem, ...]:
    """The same problems, over a text in which secrets are stars of the same length."""
    spans = tuple(secrets)
    texts: dict[tuple[Source, bool], Source] = {}
    shown = []
    for problem in problems:
        broken = problem.code in _BROKEN and _RECEIVERS in problem.source.text
        key = (problem.source, broken)
        if key not in texts:
            texts[key] = _mask(problem.source, spans, broken=broken)
        shown.append(replace(problem, source=texts[key]))
    return tuple(shown)


def _mask(source: Source, spans: tuple[Span, ...], *, broken: bool) -> Source:
    text = _URL.sub(lambda found: _stars(found.group()), source.text)
    text = _without_telling(text)
    if broken:
        text = _ordinary_words(text)
    for span in spans:
        text = text[: span.start] + _stars(text[span.start : span.end]) + text[span.end :]
    return Source(source.name, text)


def _without_telling(text: str) -> str:
    """The values of telling keys starred, each to its end."""
    for key in _TELLING.finditer(text):
        line = text.rfind("\n", 0, key.start()) + 1
        end = text.find("\n", key.end())
        end = len(text) if end < 0 else end
        if _BRACE.search(text, line, key.start()):
            found = _QUOTED.match(text, key.end()) or _TO_NEXT.match(text, key.end())
            end = end if found is None else found.end()
        text = text[: key.end()] + _stars(text[key.end() : end]) + text[end:]
    return text


def _ordinary_words(text: str) -> str:
    """Every word starred but keys and the values of ordinary ones."""
    shown: list[str] = []
    reached = 0
    # Whether what follows belongs to an ordinary key: its value, or an element of its list.
    ordinary = first = in_list = False
    for found in _WORD.finditer(text):
        between, word = text[reached : found.start()], found.group()
        reached = found.end()
        if first:
            in_list = between.strip(" ") == "["
            ordinary = "\n" not in between and between.strip(" '\"") in {"", "["}
        elif in_list:
            ordinary = ordinary and between.strip(" '\"") == ","
        else:
            ordinary = ordinary and not between.strip(" ") and not word.startswith("#")
        key = _KEY.match(word)
        is_plain = _PLAIN.fullmatch(word) is not None and not _TELLS.search(word)
        if ordinary and is_plain:
            first = False
        else:
            end = 0 if key is None else key.end()
            # `a:b` may be a secret whole; a space is missing only behind a name that tells.
            end = end if end == len(word) or _TELLS.search(word, 0, end) else 0
            first = ordinary = end == len(word) and word[:-1] in _ORDINARY
            word = word if word == "-" else word[:end] + _stars(word[end:])
        shown += [between, word]
    return "".join((*shown, text[reached:]))


def _stars(text: str) -> str:
    return "".join(char if char.isspace() else "*" for char in text)
