"""How a template's values print: `{{ value }}`, print and println."""

from __future__ import annotations

from typing import Any

from rules.templates.values import Sample
from rules.templates.verbs import Verb

_PLAIN = Verb("v")


def sprint(values: tuple[Any, ...]) -> str:
    """fmt.Sprint: a space between operands when neither is a string."""
    out: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            out.append(" ")
        out.append(_PLAIN.show(value))
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
