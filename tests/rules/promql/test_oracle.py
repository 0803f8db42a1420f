"""Our parser beside promql-parser (PyPI), which reads the same language without spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import promql_parser
import pytest

from rules.promql.features import features
from rules.promql.parser import parse
from rules.promql.printer import format as print_expr
from rules.source import ProblemsError

if TYPE_CHECKING:
    from collections.abc import Callable


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
    assert set(refused.values()) == {"rate expects a range vector, got an instant vector"}
    assert {public_expressions[text] for text in refused} == {"bad_expr.bad.yaml"}


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


def test_trees_mean_what_the_oracle_prints(
    public_expressions: dict[str, str],
    evaluated_expressions: dict[str, str],
    bare: Callable[[object], object],
) -> None:
    different = set()
    for text in public_expressions | evaluated_expressions:
        if oracle_reads(text) and not refusal(text):
            printed = promql_parser.parse(text).prettify()
            if _plain(parse(printed), bare) != _plain(parse(text), bare):
                different.add(text)
    # The oracle drops a unary plus.
    assert {text for text in different if not text.startswith("+")} == set()


def _plain(expr: object, bare: Callable[[object], object]) -> str:
    # The oracle prints 5m as a number as 300: the flag is all that may differ. NaN != NaN.
    return repr(bare(expr)).replace("True)", "False)")


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
