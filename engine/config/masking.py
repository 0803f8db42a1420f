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
_TELLING = re.compile(
    r"(?<=://)[^\s,}\]'\"]+"
    r"|(?i:(?<=password:)|(?<=token:)|(?<=secret:)|(?<=credentials:)|(?<=key:)|(?<=\burl:))"
    r"[ ]+(?!env:)[^\n]+"
)


# Where the file's structure is not understood, any word of a file with receivers may be a secret.
_BROKEN = frozenset({"yaml", "receiver"})
_RECEIVERS = "_configs"
_WORD = re.compile(r"[^\s{}\[\],'\"]+")
_KEY = re.compile(r"[\w-]*:")


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
    text = _TELLING.sub(lambda found: _stars(found.group()), source.text)
    if broken:
        text = _WORD.sub(_all_but_the_key, text)
    for span in spans:
        text = text[: span.start] + _stars(text[span.start : span.end]) + text[span.end :]
    return Source(source.name, text)


def _all_but_the_key(found: re.Match[str]) -> str:
    word = found.group()
    key = _KEY.match(word)
    end = 0 if key is None else key.end()
    return word if word == "-" else word[:end] + _stars(word[end:])


def _stars(text: str) -> str:
    return "".join(char if char.isspace() else "*" for char in text)
