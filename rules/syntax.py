"""What libyaml says of a broken file, in the words of the person who has to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from rules.source import Problem, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

# libyaml's phrase, what it means, how to mend it. First match wins.
_PHRASES: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a second ':' in an unquoted value, or wrong indentation",
        "put the value in quotes, or write it below 'key: |', indented",
    ),
    (
        "found unexpected end of stream",
        "the file ends inside a quoted text",
        "close the quote",
    ),
    (
        "did not find expected ',' or ']'",
        "expected ',' or ']' here",
        "a value that starts with '[' is a list; put quotes around it if it is text",
    ),
    (
        "did not find expected ',' or '}'",
        "expected ',' or '}' here",
        "a value that starts with '{' is a mapping; quote it if it is an expression or a template",
    ),
    (
        "did not find expected '-' indicator",
        "expected '-' or a line that is indented less",
        "the items of a list start in one column",
    ),
    (
        "did not find expected key",
        "expected a key here",
        "keys start in one column; text after a closing quote needs quotes around all of it",
    ),
    (
        "could not find expected ':'",
        "expected ':' after the key",
        "a value of several lines is indented deeper than its key, or stands below 'key: |'",
    ),
    (
        "did not find expected <document start>",
        "text after the end of the document's value",
        "every line of one mapping or list starts in the same column",
    ),
    (
        "did not find expected comment or line break",
        "text after the end of a value",
        "put quotes around all of it, or write it below 'key: |', indented",
    ),
    (
        "did not find expected node content",
        "expected a value here",
        "",
    ),
    (
        "unknown escape character",
        "there is no such escape in a double-quoted text",
        "write '\\\\' for a backslash, or use single quotes or '|', which take it as it is",
    ),
    (
        "did not find expected alphabetic or numeric character",
        "'*' and '&' at the start of a value are YAML's aliases and anchors",
        "put quotes around the value",
    ),
    (
        "block sequence entries are not allowed",
        "a list cannot start here",
        "put the '-' on a line of its own, below the key",
    ),
    (
        "found undefined tag handle",
        "a value that starts with '!' is a YAML tag",
        "put quotes around the value",
    ),
)


def syntax_problem(source: Source, error: yaml.YAMLError) -> Problem:
    """One located problem out of a YAML error."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Problem(source, Span(0, 1), f"not YAML: {error}", code="yaml")
    offset = min(error.problem_mark.index, len(source.text))
    said = error.problem or "not YAML"
    if "cannot start any token" in said or "tab character" in said:
        message, hint = _bad_start(source, offset)
    else:
        message, hint = _rephrased(said, _PHRASES)
    if "unexpected end of stream" in said and error.context_mark is not None:
        offset = error.context_mark.index
    elif error.context_mark is not None and ("could not find" in said or "'-'" in said):
        hint = f"{hint}; it began on line {error.context_mark.line + 1}"
    # At the end of a file there is no line to show: the last one with text is nearer.
    if offset >= len(source.text):
        offset = max(0, len(source.text.rstrip()) - 1)
    return Problem(source, Span(offset, offset + 1), message, hint, code="yaml")


def _bad_start(source: Source, offset: int) -> tuple[str, str]:
    char = source.text[offset] if offset < len(source.text) else ""
    line, column = source.position(offset)
    before = source.line(line)[: column - 1]
    if char == "\t" or (not before.strip() and "\t" in before):
        return "a tab in the indentation", "YAML is indented with spaces only"
    return (
        f"a value cannot start with '{char}'",
        "put the value in quotes, or write it below 'key: |', indented",
    )


def _rephrased(said: str, phrases: Iterable[tuple[str, str, str]]) -> tuple[str, str]:
    for phrase, message, hint in phrases:
        if phrase in said:
            return f"not YAML: {message}", hint
    return f"not YAML: {said}", ""
