"""From tokens to the tree, with the checks that Go makes before a template is ever run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, cast

from rules.fields import did_you_mean
from rules.slotted import dataclass, field
from rules.source import Span
from rules.templates import tree
from rules.templates.errors import TemplateError
from rules.templates.lexer import Token, tokens, unquote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_KEYWORDS = frozenset({
    "if", "with", "range", "else", "end", "define", "block", "template", "break", "continue",
})  # fmt: skip
DEEPEST_NESTING = 50


def parse(text: str, functions: Collection[str], variables: Iterable[str]) -> tree.Template:
    """The tree of a template.

    `functions` and `variables` are the names it may use. Raises TemplateError at the place.
    """
    return _Parser(text, tokens(text), functions, [*variables]).template()


@dataclass(slots=True)
class _Parser:
    text: str
    tokens: list[Token]
    functions: Collection[str]
    variables: list[str]
    position: int = 0
    depth: int = 0
    ranges: int = 0
    defined: dict[str, tuple[tree.Node, ...]] = field(default_factory=dict)

    def template(self) -> tree.Template:
        body, end = self._body()
        if end is not None:
            hint = "there is no 'if', 'with' or 'range' that it belongs to"
            raise TemplateError(f"unexpected '{{{{ {end.text} }}}}'", end.span, hint)
        return tree.Template(body, self.defined)

    def _peek(self) -> Token:
        if self.position < len(self.tokens):
            return self.tokens[self.position]
        end = len(self.text)
        return Token("end", "end of template", Span(end, end))

    def _next(self) -> Token:
        token = self._peek()
        self.position += 1
        return token

    def _expect(self, kind: str, what: str) -> Token:
        token = self._next()
        if token.kind != kind:
            raise TemplateError(f"unexpected '{token.text}', expected {what}", token.span)
        return token

    def _body(self) -> tuple[tuple[tree.Node, ...], Token | None]:
        """Nodes up to an `end` or `else`, which is returned, or the end of the template."""
        nodes: list[tree.Node] = []
        while self.position < len(self.tokens):
            token = self._next()
            if token.kind == "text":
                nodes.append(tree.Text(token.span, token.text))
                continue
            word = self._peek()
            if word.kind != "word" or word.text not in _KEYWORDS:
                nodes.append(self._action(token))
                continue
            self._next()
            if word.text in {"end", "else"}:
                return tuple(nodes), word
            node = self._statement(word)
            if node is not None:
                nodes.append(node)
        return tuple(nodes), None

    def _action(self, opening: Token) -> tree.Action:
        pipe = self._pipe("close")
        return tree.Action(opening.span.to(pipe.span), pipe)

    def _statement(self, word: Token) -> tree.Node | None:
        match word.text:
            case "if" | "with" | "range":
                return self._branch(word, word.text)
            case "break" | "continue":
                self._expect("close", "'}}'")
                if not self.ranges:
                    raise TemplateError(f"'{word.text}' outside of 'range'", word.span)
                jump: Literal["break", "continue"] = word.text
                return tree.Jump(word.span, jump)
            case "define":
                self._define(word)
                return None
            case _:
                return self._include(word)

    def _branch(self, word: Token, keyword: Literal["if", "with", "range"]) -> tree.Branch:
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise TemplateError(f"nested deeper than {DEEPEST_NESTING} levels", word.span)
        scope = len(self.variables)
        pipe = self._pipe("close", in_range=keyword == "range")
        self.ranges += keyword == "range"
        body, end = self._body()
        self.ranges -= keyword == "range"
        otherwise: tuple[tree.Node, ...] = ()
        if end is not None and end.text == "else":
            otherwise, end = self._otherwise()
        if end is None:
            hint = "close it with '{{ end }}'"
            raise TemplateError(f"'{keyword}' is not closed", word.span, hint)
        if end.text == "else":
            raise TemplateError("a second 'else'", end.span)
        if end.kind == "word":
            self._expect("close", "'}}'")
        del self.variables[scope:]
        self.depth -= 1
        return tree.Branch(word.span, keyword, pipe, body, otherwise)

    def _otherwise(self) -> tuple[tuple[tree.Node, ...], Token | None]:
        """After `else`: a body, or one chained branch, whose `end` closes both."""
        token = self._peek()
        if token.kind == "word" and token.text in {"if", "with"}:
            self._next()
            chained = self._branch(token, cast("Literal['if', 'with']", token.text))
            return (chained,), Token("chained", "end", token.span)
        self._expect("close", "'}}', 'if' or 'with'")
        return self._body()

    def _define(self, word: Token) -> None:
        if self.depth:
            hint = "a template is defined outside of 'if', 'with', 'range' and other definitions"
            raise TemplateError("'define' inside of another action", word.span, hint)
        name = self._name()
        self._expect("close", "'}}'")
        self._add(name, self._definition(word), word)

    def _add(self, name: str, body: tuple[tree.Node, ...], word: Token) -> None:
        """Of two definitions the one that says something holds; two that do are an error."""
        if not is_empty(body):
            if not is_empty(self.defined.get(name, ())):
                raise TemplateError(f"the template '{name}' is defined twice", word.span)
            self.defined[name] = body
        self.defined.setdefault(name, body)

    def _definition(self, word: Token) -> tuple[tree.Node, ...]:
        outer, self.variables = self.variables, ["$"]
        ranges, self.ranges = self.ranges, 0
        self.depth += 1
        body, end = self._body()
        self.depth -= 1
        self.ranges = ranges
        if end is None or end.text != "end":
            raise TemplateError(f"'{word.text}' is not closed", word.span)
        self._expect("close", "'}}'")
        self.variables = outer
        return body

    def _include(self, word: Token) -> tree.Include:
        name = self._name()
        pipe = None
        if self._peek().kind != "close":
            pipe = self._pipe("close")
        elif word.text == "block":
            raise TemplateError("'block' needs a value", word.span)
        else:
            self._next()
        if word.text == "block":
            self._add(name, self._definition(word), word)
        return tree.Include(word.span, name, pipe)

    def _name(self) -> str:
        token = self._next()
        if token.kind not in {"string", "raw"}:
            raise TemplateError("expected the name of a template in quotes", token.span)
        return unquote(token)

    def _pipe(self, closing: str, *, in_range: bool = False) -> tree.Pipe:
        """A pipeline and the token that closes it."""
        self.depth += 1
        first = self._peek()
        if self.depth > DEEPEST_NESTING:
            raise TemplateError(f"nested deeper than {DEEPEST_NESTING} levels", first.span)
        names, assigns = self._declaration(in_range)
        commands = [self._command()]
        while self._peek().text == "|":
            self._next()
            command = self._command()
            first_operand = command.operands[0]
            # Go refuses only what is plainly a value; a field or variable fails when it is reached.
            if isinstance(first_operand, tree.Constant) or _is_dot(first_operand):
                message = "only a function can stand after '|'"
                raise TemplateError(message, first_operand.span)
            commands.append(command)
        end = self._next()
        if closing not in {end.kind, end.text}:
            expected = "'}}'" if closing == "close" else "')'"
            message = f"unexpected '{end.text}', expected {expected}"
            raise TemplateError(message, end.span)
        if not assigns:
            self.variables.extend(names)
        self.depth -= 1
        return tree.Pipe(first.span.to(end.span), tuple(commands), names, assigns)

    def _declaration(self, in_range: bool) -> tuple[tuple[str, ...], bool]:
        names: list[Token] = []
        start = self.position
        while self._peek().kind == "variable" and len(names) < 2:
            names.append(self._next())
            token = self._peek()
            if token.kind == "define" or token.text == "=":
                self._next()
                if len(names) > 1 and not in_range:
                    raise TemplateError("two variables are only for 'range'", names[1].span)
                return tuple(name.text for name in names), token.text == "="
            if token.text != ",":
                break
            self._next()
        self.position = start
        return (), False

    def _command(self) -> tree.Command:
        operands: list[tree.Operand] = []
        while self._peek().kind not in {"close", "end"} and self._peek().text not in {"|", ")"}:
            if operands and not self._peek().spaced:
                token = self._peek()
                raise TemplateError(f"unexpected '{token.text}' in operand", token.span)
            operands.append(self._operand())
        if not operands:
            token = self._peek()
            if token.kind == "end":
                raise TemplateError("unclosed action", token.span, "close it with '}}'")
            raise TemplateError("missing value", token.span, "an action needs a value or function")
        first = operands[0]
        return tree.Command(first.span.to(operands[-1].span), tuple(operands))

    def _operand(self) -> tree.Operand:
        token = self._next()
        match token.kind:
            case "string" | "raw":
                return tree.Constant(token.span, unquote(token))
            case "number":
                return tree.Constant(token.span, _number(token))
            case "char":
                return tree.Constant(token.span, _character(token))
            case "field":
                fields, span = self._fields(token.span)
                return tree.Dot(span, (token.text[1:], *fields))
            case "variable":
                self._known(token)
                fields, span = self._fields(token.span)
                return tree.Variable(span, token.text, fields)
            case "word":
                return self._word(token)
        if token.text == ".":
            return tree.Dot(token.span, ())
        if token.text == "(":
            pipe = self._pipe(")")
            fields, span = self._fields(token.span.to(pipe.span))
            return tree.Chain(span, pipe, fields)
        raise TemplateError(f"unexpected '{token.text}' in action", token.span)

    def _fields(self, span: Span) -> tuple[tuple[str, ...], Span]:
        names = []
        while self._peek().kind == "field" and not self._peek().spaced:
            token = self._next()
            names.append(token.text[1:])
            span = span.to(token.span)
        return tuple(names), span

    def _word(self, token: Token) -> tree.Operand:
        if token.text in {"true", "false"}:
            return tree.Constant(token.span, token.text == "true")
        if token.text == "nil":
            return tree.Constant(token.span, None)
        if token.text not in self.functions:
            message = f"there is no function '{token.text}'"
            hint = did_you_mean(token.text, self.functions)
            if self.text[: token.span.start].endswith(". "):
                hint = "no space after the dot: '.labels' is a field"
            raise TemplateError(message, token.span, hint)
        return tree.Function(token.span, token.text)

    def _known(self, token: Token) -> None:
        if token.text not in self.variables:
            message = f"there is no variable '{token.text}'"
            named = [name for name in self.variables if name != "$"]
            raise TemplateError(message, token.span, did_you_mean(token.text, named))


def _is_dot(operand: tree.Operand) -> bool:
    return isinstance(operand, tree.Dot) and not operand.fields


def _character(token: Token) -> int:
    text = unquote(token)
    if len(text) != 1:
        hint = "a string stands between \", a character between '"
        raise TemplateError(f"not a character: {token.text}", token.span, hint)
    return ord(text)


def is_empty(body: tuple[tree.Node, ...]) -> bool:
    """Whether a template writes nothing but white space."""
    return all(isinstance(node, tree.Text) and not node.text.strip() for node in body)


def _number(token: Token) -> float:
    text = token.text.replace("_", "")
    digits = text.lstrip("+-").lower()
    try:
        if digits[:2] == "0x" and "p" in digits:
            value = float.fromhex(text)
        elif digits[:2] not in {"0x", "0b", "0o"} and any(c in digits for c in ".e"):
            value = float(text)
        else:
            octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
            return int(text, 8 if octal else 0)
    except (ValueError, OverflowError):
        raise TemplateError(f"not a number: '{token.text}'", token.span) from None
    if math.isinf(value):
        raise TemplateError(f"the number is too large: '{token.text}'", token.span)
    return value
