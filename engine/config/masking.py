"""Keeps secrets out of the lines that error messages show."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

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


def masked(problems: Iterable[Problem], secrets: Iterable[Span]) -> tuple[Problem, ...]:
    """The same problems, over a text in which secrets are stars of the same length."""
    texts: dict[Source, Source] = {}
    spans = tuple(secrets)
    return tuple(
        replace(problem, source=texts.setdefault(problem.source, _mask(problem.source, spans)))
        for problem in problems
    )


def _mask(source: Source, spans: tuple[Span, ...]) -> Source:
    text = _TELLING.sub(lambda found: _stars(found.group()), source.text)
    for span in spans:
        text = text[: span.start] + _stars(text[span.start : span.end]) + text[span.end :]
    return Source(source.name, text)


def _stars(text: str) -> str:
    return "".join(char if char.isspace() else "*" for char in text)
