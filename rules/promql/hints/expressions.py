"""Hints for operands, operators, calls and aggregations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.durations import suggest_duration
from rules.promql.ast import ValueType
from rules.promql.functions import AGGREGATORS, FUNCTIONS
from rules.promql.hints import foreign, suggestions
from rules.promql.hints.rewrites import following, opener, parenthesised, preceding
from rules.promql.tokens import (
    COMPARISONS,
    GROUP_WORDS,
    GROUPING_WORDS,
    MATCHING_WORDS,
    PRECEDENCE,
    SET_OPERATORS,
    Kind,
    Token,
    shorten,
)
from rules.promql.types import type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rules.promql.ast import Expr
    from rules.promql.cursor import Cursor
    from rules.promql.functions import Aggregator


_OPENERS: Final = {")": "(", "]": "[", "}": "{"}
_OPERATORS_MEANT: Final = {
    "=": "use == to compare values; = is only for labels, inside {...}",
    "=~": '=~ matches labels, inside the braces: x{label=~"..."}',
    "!~": '!~ matches labels, inside the braces: x{label!~"..."}',
}
_FOREIGN_WORDS: Final = {
    ":": "use == to compare; ranges and steps stand in brackets: x[1h:5m]",
    **dict.fromkeys(
        ("for", "labels", "annotations", "alert", "record", "keep_firing_for"),
        "that is a field of the rule, beside expr, and no part of the expression",
    ),
    "over": "over time is a function: max_over_time(x[5m])",
    **dict.fromkeys(
        ("select", "having", "order", "limit", "as", "let"),
        "PromQL has no such clause: filter with comparisons, sort with sort or topk",
    ),
    **dict.fromkeys(("then", "else"), "PromQL has no conditional: filter with a comparison"),
    "percent": "percent is no unit: write the plain number",
    "between": "write x >= 1 and x <= 2",
    "distinct": "count the values of a label with count(count by (label) (x))",
    "where": 'labels are matched inside braces: x{label="value"}',
    "group": "grouping is written sum by (label) (x)",
    "in": 'several values are one regular expression: x{label=~"a|b"}',
    "like": 'use a regular expression: x{label=~".*text.*"}',
    "is": "use == to compare; x != x is true for NaN only",
    "not": "use unless, or x == 0",
    "xor": "write (a unless b) or (b unless a)",
    "mod": "the remainder is %",
    "div": "divide with /",
    "if": "filter with and: x and y > 5",
    "default": "MetricsQL's default is or here: x or vector(0)",
    "per": "divide with /, as in rate(x[5m]) / rate(y[5m])",
}


def after_expression(cursor: Cursor, enclosing: Sequence[Token]) -> str:
    """A complete expression stands before the cursor, and no operator follows."""
    token, before = cursor.peek(), cursor.peek(-1)
    if token.kind is Kind.SYMBOL:
        return _symbol_after_expression(cursor, token, before)
    if token.kind is Kind.NAME:
        return _word_after_expression(cursor, token, before, enclosing)
    if token.kind in {Kind.NUMBER, Kind.DURATION, Kind.STRING}:
        if before.text in FUNCTIONS or before.word in AGGREGATORS:
            given = following(cursor)
            if cursor.peek(1).is_symbol("(") and given.startswith(token.text):
                # `topk 5 (x)`: two arguments, not a call of 5.
                inner = given[len(token.text) :].strip().removeprefix("(").removesuffix(")")
                given = f"{token.text}, {inner}"
            return f"put the arguments in parentheses: {before.text}({given})"
        if before.word == "offset":
            return f"offset follows a selector: x offset {token.text}"
        if before.kind is token.kind is Kind.NUMBER and len(token.text) == 3 and not enclosing:
            return f"numbers have no thousands separator: write {before.text}{token.text}"
        if before.kind is Kind.NAME:
            return "an operator is missing between them: ==, !=, <, <=, >, >=, +, -, *, /"
        if enclosing:
            return f"separate the arguments with a comma: {before.text}, {token.text}"
        return "an operator is missing between them"
    return ""


def _symbol_after_expression(cursor: Cursor, token: Token, before: Token) -> str:
    match token.text:
        case ")" | "]" | "}":
            if cursor.open:
                return f'the last open bracket is "{cursor.open[-1].text}"'
            return f'it closes nothing: remove it, or add the missing "{_OPENERS[token.text]}"'
        case "{" if before.is_symbol("}"):
            return 'put all matchers into one pair of braces: {a="x", b="y"}'
        case "{":
            return "braces come right after the metric's name"
        case "(":
            return "an operator is missing before it"
        case "," if before.kind is Kind.NUMBER and cursor.peek(1).kind is Kind.NUMBER:
            digits = f"{before.text}{cursor.peek(1).text}"
            return f"numbers have no thousands separator: write {digits}"
        case "," if not cursor.open or cursor.open[-1].text == "(":
            return "this is one expression; to join series write a or b"
        case _:
            return _OPERATORS_MEANT.get(token.text, "")


def _word_after_expression(
    cursor: Cursor, token: Token, before: Token, enclosing: Sequence[Token]
) -> str:
    word = token.word
    if word in GROUPING_WORDS:
        return _misplaced_grouping(cursor, token, enclosing)
    if word in MATCHING_WORDS | GROUP_WORDS:
        labels = f"{word} {parenthesised(cursor, 1)}"
        return f"{word} (...) comes right after the operator: a / {labels} b"
    if word == "bool":
        return "bool comes right after the comparison: a > bool b"
    foreign_word = _FOREIGN_WORDS.get(word) or _FOREIGN_WORDS.get(before.word)
    if foreign_word:
        return foreign_word
    misread = _misread(cursor, token, before)
    if misread:
        return misread
    meant = suggestions.keyword(word)
    if meant is not None:
        return f"did you mean {meant}?"
    if enclosing:
        return f'separate arguments with a comma, or put an operator before "{token.text}"'
    return f'an operator is missing before "{shorten(token.text)}"'


def _misread(cursor: Cursor, token: Token, before: Token) -> str:
    """What the token before, now read as a metric or number, was meant to be."""
    if before.text in FUNCTIONS or before.word in AGGREGATORS:
        return f"put the arguments in parentheses: {before.text}({following(cursor)})"
    if before.kind is Kind.NUMBER:
        written = f"{before.text}{token.text}"
        number = suggest_duration(written) or foreign.scaled_number(written)
        return f"write {number}" if number else ""
    if before.word in PRECEDENCE:
        return f'"{before.text}" stands between two expressions; here it was read as a metric'
    if before.text.endswith(":"):
        return f'"{before.text}" belongs to the rule file, not to the expression'
    return ""


def _misplaced_grouping(cursor: Cursor, token: Token, enclosing: Sequence[Token]) -> str:
    if cursor.tokens[opener(cursor) - 1].word in GROUPING_WORDS:
        return "an aggregation has one list of labels: put them all into it"
    labels = f"{token.text} {parenthesised(cursor, 1)}"
    if enclosing and enclosing[-1].word in AGGREGATORS:
        name = enclosing[-1].text
        return f"{token.text} stands outside the parentheses: {name}(...) {labels}"
    if cursor.tokens[opener(cursor) - 1].text == "histogram_quantile":
        # Around the call there is no `le` left to group by.
        call = f"histogram_quantile(0.9, sum {labels} (rate(x_bucket[5m])))"
        return f"{token.text} belongs to an aggregation, here inside the call: {call}"
    return f"{token.text} belongs to an aggregation: sum {labels} ({preceding(cursor)})"


def for_operand(cursor: Cursor) -> str:
    """An expression was to start at the cursor."""
    token, before = cursor.peek(), cursor.peek(-1)
    if "bool" in {token.word, before.word if token.kind is Kind.END else ""}:
        order = "a > bool on (...) b" if before.is_symbol(")") else "a > bool b"
        return f"bool comes right after the comparison, before the right side: {order}"
    if token.word in MATCHING_WORDS | GROUP_WORDS:
        return f"{token.word} (...) comes after an operator: a / {token.word} (...) b"
    if before.is_symbol(")") and cursor.tokens[opener(cursor) - 1].word in GROUP_WORDS:
        group = cursor.tokens[opener(cursor) - 1].text
        return f"the parentheses were read as the group's labels: write {group} () (...)"
    if token.kind is Kind.END:
        return _unfinished(cursor, before)
    if token.kind is Kind.SYMBOL:
        return _symbol_for_operand(cursor, token, before)
    return ""


def _unfinished(cursor: Cursor, before: Token) -> str:
    if cursor.index == 0:
        return ""
    if before.is_symbol("%") and cursor.peek(-2).kind is Kind.NUMBER:
        return "percent is no unit: write the plain number"
    if before.is_symbol(","):
        return "add the missing argument, or remove the comma"
    if before.is_symbol("("):
        return 'add what belongs in the parentheses, and ")"'
    shown = shorten(before.text)
    return f'complete it after "{shown}", or remove "{shown}"'


def _symbol_for_operand(cursor: Cursor, token: Token, before: Token) -> str:
    if token.is_symbol(")") and before.is_symbol("("):
        return "put an expression between the parentheses"
    if token.is_symbol("="):
        if before.is_symbol(">", "<"):
            return f"write {before.text}= without a space"
        return "use == to compare values"
    if token.is_symbol("["):
        return "a range follows a selector: x[5m]"
    if token.is_symbol("/") and cursor.peek(1).is_symbol("*", "/"):
        return "comments start with #"
    if cursor.index == 0:
        return "an expression is missing before it"
    if before.is_symbol(*PRECEDENCE) or before.word in PRECEDENCE:
        if token.is_symbol(*PRECEDENCE):
            return f'"{before.text}" and "{token.text}" cannot stand side by side'
        return f'complete it after "{before.text}"'
    return "an expression is missing before it"


def for_unknown_function(name: Token) -> tuple[str, str]:
    """The message and hint for a call of something that is no function."""
    message = f'unknown function "{shorten(name.text)}"'
    hint = suggestions.function(name.text)
    return message, hint or "no function of Prometheus is called like this; check its spelling"


def for_keyword(word: str) -> str:
    """A keyword stands where an expression was to start."""
    if word in SET_OPERATORS:
        return f'"{word}" stands between two expressions'
    if word in GROUPING_WORDS:
        return f"{word} (...) follows the aggregation's name: sum {word} (label) (x)"
    return "offset follows a selector: x offset 5m"


def for_aggregation(cursor: Cursor, name: Token) -> str:
    """An aggregation's parenthesis was to come."""
    if cursor.at_word(*GROUPING_WORDS):
        return "an aggregation has one list of labels: put them all into it"
    read = shorten(cursor.text(name.span.to(cursor.peek(-1).span)))
    what = following(cursor)
    if what == "...":
        return f"add the expression in parentheses: {read} (x)"
    return f"put the expression in parentheses: {read} ({what})"


def for_aggregator_arguments(
    cursor: Cursor, aggregator: Aggregator, args: Sequence[Expr]
) -> tuple[str, str]:
    """The message and hint for an aggregation with too few or too many arguments."""
    name = aggregator.name
    written = [shorten(cursor.text(arg.span)) for arg in args]
    if aggregator.param is None:
        message = f"{name} takes 1 argument (instant vector), got {len(args)}"
        if not args:
            return message, f"write {name}(x)"
        return message, _one_vector(name, args, written)
    count = "1 or 2" if aggregator.optional else "2"
    kind = f"{aggregator.param.value}, instant vector"
    message = f"{name} takes {count} arguments ({kind}), got {len(args)}"
    vector = written[-1] if args else "x"
    if aggregator.optional and not args:
        return message, f"write {name}({vector})"
    if len(args) > 2:
        return message, f"write {name}({written[0]}, {written[1]})"
    return message, f"write {name}({aggregator.example}, {vector})"


def _one_vector(name: str, args: Sequence[Expr], written: Sequence[str]) -> str:
    vectors = [
        text for arg, text in zip(args, written, strict=True) if type_of(arg) is ValueType.VECTOR
    ]
    numbers = [
        text for arg, text in zip(args, written, strict=True) if type_of(arg) is ValueType.SCALAR
    ]
    clamp = {"min": "clamp_max", "max": "clamp_min"}.get(name)
    if clamp and len(vectors) == len(numbers) == 1:
        bounded = f"{clamp}({vectors[0]}, {numbers[0]})"
        return f"{name} works across series; to bound each value write {bounded}"
    if len(vectors) != len(args):
        return f"write {name}({vectors[0] if vectors else 'x'})"
    joined = " or ".join(written)
    return f"aggregate one vector at a time; to join series write {name}({joined})"


def for_group_without_on(cursor: Cursor) -> str:
    """group_left or group_right right after an operator."""
    group, operator = cursor.peek(), cursor.peek(-1)
    if operator.word in SET_OPERATORS:
        return f"remove {group.text}: {operator.word} is always many-to-many"
    if operator.word == "bool" or operator.text in COMPARISONS:
        return f"write {operator.text} on (...) {group.text} (...)"
    return f"say what to match on: {operator.text} on (label) {group.text} (...)"
