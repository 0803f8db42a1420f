"""What a template reads: labels of the alert, and whatever changes between evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.templates.check import read
from rules.templates.errors import TemplateError
from rules.templates.tree import (
    Action,
    Branch,
    Chain,
    Constant,
    Dot,
    Function,
    Include,
    Text,
    Variable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rules.source import Span
    from rules.templates.tree import Command, Node, Operand, Pipe

# Functions whose result is another at every evaluation.
_MOVING = {"now": "the time", "query": "a query's result"}


def labels_read(text: str) -> Iterator[tuple[str, Span]]:
    """Each label that is read with a name that is written out, and where.

    `.Labels` counts only where the dot is still the template's own, so not inside `range` and
    `with`; `$labels` and `$.Labels` always.
    """
    for pipe, is_own_dot, _ in _pipes(text):
        for command in _commands(pipe):
            yield from _labels_of(command, is_own_dot=is_own_dot)


def changing(text: str) -> Iterator[tuple[str, Span]]:
    """What makes the printed text move: its name in words, and where.

    A condition on the value is no such thing: its outcomes are few.
    """
    for pipe, is_own_dot, is_printed in _pipes(text):
        if not is_printed:
            continue
        for command in _commands(pipe):
            for operand in command.operands:
                what = _moving(operand, is_own_dot=is_own_dot)
                if what:
                    yield what, operand.span


def _pipes(text: str) -> Iterator[tuple[Pipe, bool, bool]]:
    """Every pipeline, whether the dot is the template's own there, and whether it is printed."""
    try:
        template = read(text)
    except TemplateError:
        return  # it did not load either, and that is reported as an error
    pending: list[tuple[tuple[Node, ...], bool]] = [(template.body, True)]
    pending += [(body, False) for body in template.defined.values()]
    while pending:
        nodes, is_own = pending.pop()
        for node in nodes:
            match node:
                case Action(pipe=pipe):
                    yield pipe, is_own, not pipe.variables
                case Branch(keyword=keyword, pipe=pipe, body=body, otherwise=otherwise):
                    yield pipe, is_own, keyword == "range"
                    pending += [(body, is_own and keyword == "if"), (otherwise, is_own)]
                case Include(pipe=pipe) if pipe is not None:
                    yield pipe, is_own, False
                case Text() | _:
                    pass


def _commands(pipe: Pipe) -> Iterator[Command]:
    """The commands of a pipeline and of those in parentheses inside it."""
    pending = list(pipe.commands)
    while pending:
        command = pending.pop()
        yield command
        for operand in command.operands:
            if isinstance(operand, Chain):
                pending += operand.pipe.commands


def _labels_of(command: Command, *, is_own_dot: bool) -> Iterator[tuple[str, Span]]:
    for operand in command.operands:
        fields = _fields_of_labels(operand, is_own_dot=is_own_dot)
        if fields:
            yield fields[0], operand.span
    head, *rest = command.operands
    if isinstance(head, Function) and head.name == "index" and len(rest) == 2:
        table, key = rest
        is_table = _fields_of_labels(table, is_own_dot=is_own_dot) == ()
        if is_table and isinstance(key, Constant) and isinstance(key.value, str):
            yield key.value, key.span


def _fields_of_labels(operand: Operand, *, is_own_dot: bool) -> tuple[str, ...] | None:
    """The fields after `$labels`, `.Labels` or `$.Labels`; None: it is something else."""
    match operand:
        case Variable(name="$labels", fields=fields):
            return fields
        case Variable(name="$", fields=("Labels", *fields)):
            return tuple(fields)
        case Dot(fields=("Labels", *fields)) if is_own_dot:
            return tuple(fields)
        case _:
            return None


def _moving(operand: Operand, *, is_own_dot: bool) -> str:
    match operand:
        case Variable(name="$value") | Variable(name="$", fields=("Value",)):
            return "the value"
        case Dot(fields=("Value",)) if is_own_dot:
            return "the value"
        case Function(name=name):
            return _MOVING.get(name, "")
        case _:
            return ""
