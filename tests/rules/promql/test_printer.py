from __future__ import annotations

import pytest

from rules.promql.parser import parse
from rules.promql.printer import format as print_expr


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("sum(rate(x[ 300s ]))by(a,b)", "sum by (a, b) (rate(x[5m]))"),
        ("sum by()(x)", "sum(x)"),
        ("SUM without() (x)", "sum without () (x)"),
        ("topk(5,x)", "topk(5, x)"),
        ('x{b="2",a="1"}', 'x{a="1",b="2"}'),
        ("{'my.metric','a b'=~`c\\d`}", '{"a b"=~"c\\\\d",__name__="my.metric"}'),
        ("{__name__='x'}", '{__name__="x"}'),
        ("x offset -1h30m @ 1.5", "x @ 1.500 offset -1h30m"),
        ("x[5m] offset 1w @end()", "x[5m] @ end() offset 1w"),
        ("x[1h:]", "x[1h:]"),
        ("x[1h:60s] @ start()", "x[1h:1m] @ start()"),
        ("a+on(b)group_left(c,d)e", "a + on (b) group_left (c, d) e"),
        ("a==bool ignoring(b)c", "a == bool ignoring (b) c"),
        ("a*ignoring()group_right b", "a * ignoring () group_right () b"),
        ("a AND b", "a and b"),
        ("-(-1)", "-(-1)"),
        ("--1", "1"),
        ("1e-7", "0.0000001"),
        ("1e21", "1000000000000000000000"),
        ("0.30000000000000004", "0.30000000000000004"),
        ("inf", "+Inf"),
        ("-inf", "-Inf"),
        ("nan", "NaN"),
        ("x > 90m", "x > 1h30m"),
        ("'it\\'s é \\n'", '"it\'s é \\n"'),
    ],
)
def test_an_expression_is_printed_as_prometheus_prints_it(text: str, printed: str) -> None:
    assert print_expr(parse(text)) == printed
