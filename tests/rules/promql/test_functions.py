from __future__ import annotations

import promql_parser
import pytest

from rules.promql.ast import ValueType
from rules.promql.features import OURS, Feature, features
from rules.promql.functions import AGGREGATORS, FUNCTIONS, OTHER_NAMES, Signature
from rules.promql.parser import parse
from rules.source import Span

EXAMPLES = {
    ValueType.SCALAR: "1",
    ValueType.VECTOR: "x",
    ValueType.MATRIX: "x[5m]",
    ValueType.STRING: '"s"',
}


def call(signature: Signature, count: int) -> str:
    """A call of the function with this many arguments."""
    args = [EXAMPLES[signature.arg(i)] for i in range(count)]
    if signature.name == "info" and count > 1:
        args[1] = '{s="s"}'
    return f"{signature.name}({', '.join(args)})"


@pytest.mark.parametrize("name", sorted(name for name, row in FUNCTIONS.items() if not row.ours))
def test_every_function_takes_what_the_oracle_says_it_takes(name: str) -> None:
    signature = FUNCTIONS[name]
    promql_parser.parse(call(signature, signature.least))
    if signature.most is not None:
        promql_parser.parse(call(signature, signature.most))
        with pytest.raises(ValueError, match="argument"):
            promql_parser.parse(
                call(signature, signature.most + 1) if signature.args else f"{name}(1)"
            )
    if signature.least:
        with pytest.raises(ValueError, match="argument"):
            promql_parser.parse(call(signature, signature.least - 1))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_parses_with_its_own_signature(name: str) -> None:
    signature = FUNCTIONS[name]
    most = signature.least + 2 if signature.most is None else signature.most
    for count in range(signature.least, most + 1):
        parse(call(signature, count))


def test_names_of_other_languages_are_no_names_of_ours() -> None:
    assert not OTHER_NAMES.keys() & (FUNCTIONS.keys() | AGGREGATORS.keys())


def test_experimental_functions_are_named_with_their_place_and_flag() -> None:
    flag = "promql-experimental-functions"
    assert features(parse("rate(x[5m]) > mad_over_time(x[5m])")) == (
        Feature("mad_over_time", flag, Span(14, 27)),
    )
    assert features(parse("sum(sort_by_label(x, 'a')) + first_over_time(x[1m])")) == (
        Feature("sort_by_label", flag, Span(4, 17)),
        Feature("first_over_time", flag, Span(29, 44)),
    )
    assert features(parse("sum(rate(x[5m]))")) == ()


def test_functions_that_prometheus_lacks_are_named_without_a_flag() -> None:
    assert features(parse("sum(zscore_over_time(x[5m]))")) == (
        Feature("zscore_over_time", OURS, Span(4, 20)),
    )
