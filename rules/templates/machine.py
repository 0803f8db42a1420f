"""Runs the tree of a template: values in, text out, bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rules.slotted import dataclass, field, replace
from rules.templates import tree
from rules.templates.errors import TemplateError
from rules.templates.moments import Elapsed, Moment, call_method
from rules.templates.names import LAZY
from rules.templates.printing import show
from rules.templates.values import Typed, member, truth, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rules.source import Span

MOST_STEPS = 100_000
LONGEST_OUTPUT = 1_000_000
# What handling a thousand characters counts as.
CHARACTERS_A_STEP = 1_000


class _BreakError(Exception):
    """Leaves a range."""


class _ContinueError(Exception):
    """Goes on with the next element of a range."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a template finds around it.

    `root`: the dot, and `$`. `given`: functions that are told where they are called, and charge for
    it. `printed`: what becomes of a value that an action prints, and of the text around actions.
    """

    root: Any
    functions: Mapping[str, Callable[..., Any]]
    variables: tuple[tuple[str, Any], ...] = ()
    given: Mapping[str, Callable[[Run, Span, tuple[Any, ...]], Any]] = field(default_factory=dict)
    printed: Printed | None = None
    most_steps: int = MOST_STEPS


class Printed(Protocol):
    """Makes what is printed safe where it is printed. Raises TemplateError where it cannot."""

    def literal(self, text: str) -> str:
        """What the template's author wrote."""
        ...

    def value(self, value: Any, text: str) -> str:
        """What an action printed: a value, and its text."""
        ...


@dataclass(slots=True)
class Run:
    """One run of one template."""

    template: tree.Template
    around: Surroundings
    variables: list[tuple[str, Any]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    steps: int = 0
    length: int = 0
    depth: int = 0

    def text(self) -> str:
        """What it writes. Raises TemplateError."""
        self.variables = [("$", self.around.root), *self.around.variables]
        try:
            self._body(self.template.body, self.around.root)
        except RecursionError:
            raise TemplateError("nested too deeply") from None
        return "".join(self.output)

    def _body(self, nodes: tuple[tree.Node, ...], dot: Any) -> None:
        for node in nodes:
            self.charge(node.span)
            match node:
                case tree.Text(text=text):
                    printed = self.around.printed
                    self._write(text if printed is None else printed.literal(text), node.span)
                case tree.Action(pipe=pipe):
                    value = self._pipe(pipe, dot)
                    if not pipe.variables:
                        self._print(value, node.span)
                case tree.Branch():
                    self._branch(node, dot)
                case tree.Jump(keyword=keyword):
                    raise _BreakError if keyword == "break" else _ContinueError
                case tree.Include():
                    self._include(node, dot)

    def charge(self, span: Span, steps: int = 1) -> None:
        """Count what was done. Raises TemplateError when it is too much."""
        self.steps += steps
        if self.steps > self.around.most_steps:
            raise TemplateError(f"more than {self.around.most_steps:,} steps", span)

    def _print(self, value: Any, span: Span) -> None:
        text = show(value)
        if self.around.printed is not None:
            try:
                text = self.around.printed.value(value, text)
            except TemplateError as error:
                raise TemplateError(error.message, span, error.hint) from None
        self._write(text, span)

    def _write(self, text: str, span: Span) -> None:
        self.length += len(text)
        if self.length > LONGEST_OUTPUT:
            raise TemplateError(f"more than {LONGEST_OUTPUT:,} characters", span)
        self.output.append(text)

    def _branch(self, node: tree.Branch, dot: Any) -> None:
        scope = len(self.variables)
        value = self._pipe(node.pipe, dot)
        if node.keyword == "range":
            self._range(node, value, dot)
        elif truth(value):
            self._body(node.body, value if node.keyword == "with" else dot)
        else:
            self._body(node.otherwise, dot)
        del self.variables[scope:]

    def _range(self, node: tree.Branch, value: Any, dot: Any) -> None:
        pairs: list[tuple[Any, Any]]
        if isinstance(value, dict):
            pairs = sorted(value.items())
        elif isinstance(value, list):
            pairs = list(enumerate(value))
        elif isinstance(value, int) and not isinstance(value, bool):
            pairs = [(index, index) for index in range(min(value, self.around.most_steps + 1))]
        elif value is None:
            pairs = []
        else:
            raise TemplateError(f"range can't iterate over {type_name(value)}", node.pipe.span)
        if not pairs:
            self._body(node.otherwise, dot)
        names = node.pipe.variables
        scope = len(self.variables)
        for key, item in pairs:
            self.charge(node.span)
            values = (item,) if len(names) == 1 else (key, item)
            for name, bound in zip(names, values, strict=False):
                self._bind(name, bound, node.pipe.assigns)
            try:
                self._body(node.body, item)
            except _BreakError:
                break
            except _ContinueError:
                continue
            finally:
                del self.variables[scope:]

    def _include(self, node: tree.Include, dot: Any) -> None:
        body = self.template.defined.get(node.name)
        if body is None:
            raise TemplateError(f"there is no template '{node.name}'", node.span)
        if self.depth >= 100:  # each level is several Python frames
            raise TemplateError("templates include each other too deeply", node.span)
        value = None if node.pipe is None else self._pipe(node.pipe, dot)
        outer, self.variables = self.variables, [("$", value)]
        self.depth += 1
        try:
            self._body(body, value)
        except TemplateError as error:
            # Its span is a place in that template, and not in this one.
            error.within = error.within or node.name
            raise
        self.depth -= 1
        self.variables = outer

    def _bind(self, name: str, value: Any, assigns: bool) -> None:
        if assigns:
            for index in range(len(self.variables) - 1, -1, -1):
                if self.variables[index][0] == name:
                    self.variables[index] = (name, value)
                    return
            raise TemplateError(f"undefined variable: {name}")
        self.variables.append((name, value))

    def _pipe(self, pipe: tree.Pipe, dot: Any) -> Any:
        value: Any = None
        for index, command in enumerate(pipe.commands):
            value = self._command(command, dot, () if index == 0 else (value,))
        # A range binds its variables to the elements, not to the list.
        if pipe.variables and not (isinstance(value, dict | list) and len(pipe.variables) > 1):
            try:
                self._bind(pipe.variables[0], value, pipe.assigns)
            except TemplateError as error:
                raise TemplateError(error.message, pipe.span) from None
        return value

    def _command(self, command: tree.Command, dot: Any, final: tuple[Any, ...]) -> Any:
        self.charge(command.span)
        first, *rest = command.operands
        if not isinstance(first, tree.Function):
            arguments = tuple(self._operand(operand, dot) for operand in rest) + final
            if arguments and isinstance(first, tree.Dot | tree.Variable | tree.Chain):
                return self._method(first, dot, arguments)
            if arguments:
                raise _not_a_function(first.span)
            if isinstance(first, tree.Constant) and first.value is None:
                raise TemplateError("nil is not a command", first.span)
            return self._operand(first, dot)
        if first.name in LAZY:
            return self._lazy(first, rest, dot, final)
        arguments = tuple(self._operand(operand, dot) for operand in rest) + final
        return self._weighed(first, self._call(first, arguments), arguments)

    def _weighed(self, function: tree.Function, result: Any, arguments: tuple[Any, ...]) -> Any:
        """A result, its cost counted, so that values cannot grow where nobody sees them."""
        if isinstance(result, str) and len(result) > LONGEST_OUTPUT:
            raise TemplateError(f"more than {LONGEST_OUTPUT:,} characters", function.span)
        texts = (len(value) for value in (result, *arguments) if isinstance(value, str))
        self.charge(function.span, sum(texts) // CHARACTERS_A_STEP)
        return result

    def _method(
        self, operand: tree.Dot | tree.Variable | tree.Chain, dot: Any, arguments: tuple[Any, ...]
    ) -> Any:
        """`$t.Format "15:04"`."""
        *fields, name = operand.fields or ("",)
        value = self._operand(replace(operand, fields=tuple(fields)), dot)
        try:
            if isinstance(value, Moment | Elapsed):
                return call_method(value, name, arguments)
            if isinstance(value, Typed) and name in value.methods:
                return value.call(name, arguments)
        except TemplateError as error:
            raise TemplateError(error.message, operand.span) from None
        raise _not_a_function(operand.span)

    def _lazy(
        self, function: tree.Function, operands: list[tree.Operand], dot: Any, final: Any
    ) -> Any:
        if not operands and not final:
            raise TemplateError(f"{function.name} needs a value", function.span)
        value: Any = None
        for operand in operands:
            value = self._operand(operand, dot)
            if truth(value) == (function.name == "or"):
                return value
        return final[0] if final else value

    def _call(self, function: tree.Function, arguments: tuple[Any, ...]) -> Any:
        try:
            if function.name in self.around.given:
                return self.around.given[function.name](self, function.span, arguments)
            return self.around.functions[function.name](*arguments)
        except TemplateError as error:
            raise TemplateError(error.message, function.span, error.hint) from None
        except (TypeError, ValueError) as error:
            # The functions check their values themselves; what is left is the number of them.
            given = ", ".join(map(type_name, arguments)) or "nothing"
            message = f"wrong arguments for {function.name}: {given}"
            raise TemplateError(message, function.span) from error

    def _operand(self, operand: tree.Operand, dot: Any) -> Any:
        match operand:
            case tree.Constant(value=value):
                if isinstance(value, int) and not -(2**63) <= value < 2**63:
                    raise TemplateError(f"{value} overflows int", operand.span)
                return value
            case tree.Dot(fields=fields):
                return self._members(dot, fields, operand.span)
            case tree.Variable(name=name, fields=fields):
                value = next(v for own, v in reversed(self.variables) if own == name)
                return self._members(value, fields, operand.span)
            case tree.Chain(pipe=pipe, fields=fields):
                return self._members(self._pipe(pipe, dot), fields, operand.span)
            case tree.Function():
                return self._call(operand, ())

    def _members(self, value: Any, fields: tuple[str, ...], span: Span) -> Any:
        try:
            for name in fields:
                value = member(value, name)
        except TemplateError as error:
            raise TemplateError(error.message, span) from None
        return value


def _not_a_function(span: Span) -> TemplateError:
    hint = "it is no function; a field is written with a dot: '$labels.instance'"
    return TemplateError("can't give an argument to a value", span, hint)
