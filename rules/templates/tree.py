"""The syntax tree of a template. https://pkg.go.dev/text/template describes each form."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as Kind

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from rules.source import Span


@dataclass(frozen=True, slots=True)
class Constant:
    """A string, number, boolean or nil."""

    span: Span
    value: str | float | bool | None


@dataclass(frozen=True, slots=True)
class Dot:
    """`.` and the fields after it: `.Labels.job`."""

    span: Span
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name.field`; the name includes its dollar."""

    span: Span
    name: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name."""

    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class Chain:
    """`(pipeline).field`."""

    span: Span
    pipe: Pipe
    fields: tuple[str, ...]


Operand: TypeAlias = Constant | Dot | Variable | Function | Chain


@dataclass(frozen=True, slots=True)
class Command:
    """A value, or a function with its arguments."""

    span: Span
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """`$a, $b := command | command`."""

    span: Span
    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """What stands outside of actions."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """`{{ pipeline }}`."""

    span: Span
    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Branch:
    """`if`, `with` or `range` with its two bodies."""

    span: Span
    keyword: Kind["if", "with", "range"]
    pipe: Pipe
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    span: Span
    keyword: Kind["break", "continue"]


@dataclass(frozen=True, slots=True)
class Include:
    """`{{ template "name" pipeline }}`."""

    span: Span
    name: str
    pipe: Pipe | None


Node: TypeAlias = Text | Action | Branch | Jump | Include


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template and the templates that it defines."""

    body: tuple[Node, ...]
    defined: dict[str, tuple[Node, ...]] = field(default_factory=dict)
