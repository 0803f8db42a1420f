"""How a template's values print: `{{ value }}`, print and println."""

from __future__ import annotations

from typing import Any

from rules.templates.values import Sample
from rules.templates.verbs import Verb

_PLAIN = Verb("v")


def sprint(values: tuple[Any, ...]) -> str:
    """fmt.Sprint: a space between operands when neither is a string."""
    return _joined(values, [_PLAIN.show(value) for value in values])


def sprint_shown(values: tuple[Any, ...]) -> str:
    """As `sprint`, of what each value would print as an action: html, js and urlquery do so."""
    texts = [show(value) for value in values]
    # nil has become the string `<no value>`.
    return _joined(tuple("" if value is None else value for value in values), texts)


def _joined(values: tuple[Any, ...], texts: list[str]) -> str:
    out: list[str] = []
    for index, (value, text) in enumerate(zip(values, texts, strict=True)):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            out.append(" ")
        out.append(text)
    return "".join(out)


def sprintln(values: tuple[Any, ...]) -> str:
    """fmt.Sprintln: a space between all operands, and a line end."""
    return " ".join(map(_PLAIN.show, values)) + "\n"


def show(value: Any) -> str:
    """What an action writes: %v, a pointer followed to what it points at."""
    if value is None:
        return "<no value>"
    text = _PLAIN.show(value)
    return text[1:] if isinstance(value, Sample) else text
