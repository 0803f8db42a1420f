"""Our parser beside promql-parser (PyPI), which reads most of the same language without spans."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest

from rules.promql.ast import (
    Aggregate,
    At,
    Binary,
    Call,
    Duration,
    Expr,
    MatrixSelector,
    NumberLiteral,
    Paren,
    StringLiteral,
    Subquery,
    Unary,
    VectorMatching,
    VectorSelector,
)
from rules.promql.features import features
from rules.promql.lexer import tokenize
from rules.promql.parser import parse
from rules.promql.printer import format as print_expr
from rules.promql.tokens import SET_OPERATORS
from rules.source import ProblemsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta


def oracle_reads(text: str) -> bool:
    try:
        promql_parser.parse(text)
    except ValueError:
        return False
    return True


def refusal(text: str) -> str:
    """Why our parser refuses the text, "" if it does not."""
    try:
        parse(text)
    except ProblemsError as error:
        return error.problems[0].message
    return ""


def test_every_expression_of_the_public_rule_files_is_read(
    public_expressions: dict[str, str],
) -> None:
    assert len(public_expressions) > 500
    refused = {text: why for text in public_expressions if (why := refusal(text))}
    assert {public_expressions[text]: why for text, why in refused.items()} == {
        "bad_expr.bad.yaml": "rate expects a range vector, got an instant vector",
        "bad-rules-syntax.yml": ('unexpected end of expression, expected an expression after "+"'),
    }


def test_every_expression_that_prometheus_evaluates_is_read(
    evaluated_expressions: dict[str, str],
) -> None:
    assert len(evaluated_expressions) > 1_000
    assert {text: why for text in evaluated_expressions if (why := refusal(text))} == {}


def test_what_the_oracle_reads_is_read_and_the_rest_is_experimental(
    public_expressions: dict[str, str], evaluated_expressions: dict[str, str]
) -> None:
    for text in public_expressions | evaluated_expressions:
        why = refusal(text)
        if oracle_reads(text):
            assert not why, text
        elif not why:
            # promql-parser lags behind what Prometheus reads with feature flags.
            assert features(parse(text)), text


def test_trees_are_the_oracles_trees(
    public_expressions: dict[str, str], evaluated_expressions: dict[str, str]
) -> None:
    compared = 0
    for text in public_expressions | evaluated_expressions:
        # To the oracle the byte \xc5 is the character \u00c5.
        if oracle_reads(text) and not refusal(text) and "\\x" not in text:
            assert repr(ours(parse(text))) == repr(theirs(promql_parser.parse(text))), text
            compared += 1
    assert compared > 1_500


# Pieces to break expressions with.
PIECES = (
    '( ) [5m] { } , "offset 5m" "offset -5m" "@ 5" "by (a)" "on (a)" group_left bool and or unless'
    ' + - * ^ == > 5 5m "\'s\'" x sum rate time() [5m:1m] = =~ !~ {a="b"} inf start() topk atan2 by'
)


def _mutated(text: str, chance: random.Random) -> str:
    tokens = [text[token.span.start : token.span.end] for token in tokenize(text)][:-1]
    for _ in range(chance.choice([1, 1, 2])):
        place, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
        match chance.randrange(4):
            case 0 if len(tokens) > 1:
                del tokens[place]
            case 1:
                tokens.insert(place, chance.choice(PIECES.split(" ")))
            case 2:
                tokens[place] = chance.choice(PIECES.split(" "))
            case _:
                tokens[place], tokens[other] = tokens[other], tokens[place]
        if not tokens:
            break
    return " ".join(tokens)


def test_broken_expressions_are_read_or_refused_as_by_the_oracle(
    public_expressions: dict[str, str], evaluated_expressions: dict[str, str]
) -> None:
    chance = random.Random(3)
    texts = sorted(text for text in public_expressions | evaluated_expressions if len(text) < 200)
    read = refused = 0
    for text in chance.choices(texts, k=1_500):
        broken = _mutated(text, chance)
        why = refusal(broken)
        if not why:
            read += 1
            assert oracle_reads(broken) or features(parse(broken)) or _newer(broken), broken
            if oracle_reads(broken):
                assert repr(ours(parse(broken))) == repr(theirs(promql_parser.parse(broken)))
        else:
            refused += 1
            assert not oracle_reads(broken) or why.startswith(LAX), (broken, why)
    assert read > 100
    assert refused > 500


# What the oracle lets through and Prometheus does not.
LAX = ("unary + expects", "the range must be longer", "the step must be longer")


def _newer(text: str) -> bool:
    """Whether only a sign within a duration, or a keyword as a name, is beyond the oracle."""
    tokens = tokenize(text)
    signed = any(
        token.is_symbol("[", ":") and tokens[place + 1].is_symbol("+", "-")
        for place, token in enumerate(tokens)
    )
    return signed or any(token.word in KEYWORD_NAMES for token in tokens)


KEYWORD_NAMES = {"anchored", "smoothed", "step", "range", "fill", "fill_left", "fill_right"}


def ours(expr: Expr) -> tuple[Any, ...]:  # noqa: C901 - one case per kind of node
    """A tree in the terms that both have."""
    match expr:
        case NumberLiteral(value=value):
            return ("number", value)
        case StringLiteral(value=value):
            return ("string", value)
        case Paren(expr=inner):
            return ("paren", ours(inner))
        case Unary(op="+", expr=inner):
            return ours(inner)
        case Unary(expr=inner):
            return ("minus", ours(inner))
        case VectorSelector():
            matchers: list[tuple[str, str, str]] = [(m.label, m.op, m.value) for m in expr.matchers]
            return _selector(matchers, _ms(expr.offset), _at(expr.at))
        case MatrixSelector(selector=selector, range=wide):
            return ("range", ours(selector), wide.milliseconds)
        case Subquery(expr=inner, range=wide, step=step):
            times = (wide.milliseconds, None if step is None else step.milliseconds)
            return ("subquery", ours(inner), *times, _ms(expr.offset), _at(expr.at))
        case Call(func=func, args=args):
            return ("call", func, *map(ours, args))
        case Aggregate(op=op, expr=inner, param=param):
            given = None if param is None else ours(param)
            return ("aggregate", op, given, ours(inner), sorted(expr.grouping), expr.without)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            return ("binary", op, ours(lhs), ours(rhs), expr.return_bool, _matching(expr.matching))


def _ms(offset: Duration | None) -> int:
    return 0 if offset is None else offset.milliseconds


def _at(at: At | None) -> int | str | None:
    return None if at is None else at.anchor


def _matching(matching: VectorMatching | None) -> tuple[Any, ...]:
    if matching is None or matching.cardinality == "many-to-many":
        matching = matching or VectorMatching("one-to-one", on=False, labels=())
        return ("one-to-one", matching.on, sorted(matching.labels), [], None, None)
    cardinality, labels = matching.cardinality, sorted(matching.labels)
    fills = (matching.fill_left, matching.fill_right)
    return (cardinality, matching.on, labels, sorted(matching.include), *fills)


def _selector(
    matchers: list[tuple[str, str, str]], offset: int, at: int | str | None
) -> tuple[Any, ...]:
    return ("selector", sorted(matchers), offset, at)


def theirs(expr: Any) -> tuple[Any, ...]:  # noqa: C901 - one case per kind of node
    """The oracle's tree in the same terms."""
    match type(expr).__name__:
        case "NumberLiteral":
            return ("number", expr.val)
        case "StringLiteral":
            return ("string", expr.val)
        case "ParenExpr":
            return ("paren", theirs(expr.expr))
        case "UnaryExpr":
            inner = theirs(expr.expr)
            return ("number", -inner[1]) if inner[0] == "number" else ("minus", inner)
        case "VectorSelector":
            matchers = [(m.name, OPERATORS[str(m.op)], m.value) for m in expr.matchers.matchers]
            named = [] if expr.name is None else [("__name__", "=", expr.name)]
            return _selector(named + matchers, _milliseconds(expr.offset), _their_at(expr.at))
        case "MatrixSelector":
            return ("range", theirs(expr.vector_selector), _milliseconds(expr.range))
        case "SubqueryExpr":
            step = None if expr.step is None else _milliseconds(expr.step)
            times = (_milliseconds(expr.range), step)
            place = (_milliseconds(expr.offset), _their_at(expr.at))
            return ("subquery", theirs(expr.expr), *times, *place)
        case "Call":
            return ("call", expr.func.name, *map(theirs, expr.args))
        case "AggregateExpr":
            given = None if expr.param is None else theirs(expr.param)
            labels = [] if expr.modifier is None else sorted(expr.modifier.labels)
            without = expr.modifier is not None and "Without" in str(expr.modifier.type)
            return ("aggregate", str(expr.op), given, theirs(expr.expr), labels, without)
        case "BinaryExpr":
            with_bool = expr.modifier is not None and expr.modifier.return_bool
            sides = (theirs(expr.lhs), theirs(expr.rhs))
            op = str(expr.op)
            return ("binary", op, *sides, with_bool, _their_matching(op, expr.modifier))
        case other:
            raise AssertionError(other)


OPERATORS = {
    "MatchOp.Equal": "=",
    "MatchOp.NotEqual": "!=",
    "MatchOp.Re": "=~",
    "MatchOp.NotRe": "!~",
}
CARDINALITIES = {"OneToOne": "one-to-one", "ManyToOne": "many-to-one", "OneToMany": "one-to-many"}


def _milliseconds(delta: timedelta | None) -> int:
    if delta is None:
        return 0
    return (delta.days * 86_400 + delta.seconds) * 1000 + delta.microseconds // 1000


def _their_at(at: Any) -> int | str | None:
    if at is None:
        return None
    if str(at.type).endswith("At"):
        moment: datetime = at.at
        return round(moment.timestamp() * 1000)
    return str(at.type).rpartition(".")[2].lower()


def _their_matching(op: str, modifier: Any) -> tuple[Any, ...]:
    if modifier is None:
        return ("one-to-one", False, [], [], None, None)
    on = modifier.matching is not None and "Include" in str(modifier.matching.type)
    labels = [] if modifier.matching is None else sorted(modifier.matching.labels)
    if op in SET_OPERATORS:
        return ("one-to-one", on, labels, [], None, None)
    cardinality = CARDINALITIES[str(modifier.card).rpartition(".")[2]]
    fills = modifier.fill_values
    include = sorted(modifier.group_labels or [])
    return (cardinality, on, labels, include, fills and fills.lhs, fills and fills.rhs)


def test_printing_is_a_fixed_point(
    public_expressions: dict[str, str],
    evaluated_expressions: dict[str, str],
    bare: Callable[[object], object],
) -> None:
    for text in public_expressions | evaluated_expressions:
        if not refusal(text):
            tree = parse(text)
            printed = print_expr(tree)
            assert repr(bare(parse(printed))) == repr(bare(tree))
            assert print_expr(parse(printed)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "sum(x) by (a,)", "x{a='b',}", "x @ -1", "x offset -5m @ end()", "a * on () group_left b",
        "a and on () b", "-x ^ -y", "+x", "1 == bool 2", "x[5m:]", "rate(x[5m] @ 1 offset 1m)",
        "count_values('v', x)", "{__name__=~'a.+'}", "-1 ^ 2", "1 or x", "x or 1",
        "1 > 2", "a + bool b", "x[5m] + 1", "rate(x)", "topk(x)", "sum(x, y)", "{}", "{a=''}",
        "{a=~'.*'}", "x{a=~'['}", "x offset 5m offset 5m", "x @ 1 @ 2", "(x) offset 5m",
        "sum(x)[5m]", "x[5m][5m]", "x[5m:][5m:]", "-'a'", "-x[5m]", "a and on (b) group_left c",
        "a / on (b) group_left (b) c", "a / group_left c", "1 / on (a) b", "time(1)", "foo(x)",
        "x[0s]", "x{a=b}", "x{a}", "sum by a (x)", "sum by (a b) (x)", "'\\d'", "x[5m:1m:1m]",
    ],
)  # fmt: skip
def test_small_expressions_are_read_or_refused_as_by_the_oracle(text: str) -> None:
    assert (not refusal(text)) == oracle_reads(text)
