"""Replacement templates of label_replace."""

from __future__ import annotations

import pytest

from engine.promql.regex import PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "template", "text", "expected"),
    [
        ("(.*)-(.*)", "$2/$1", "a-b", "b/a"),
        ("(?P<host>[^:]+):.*", "$host", "node7:9466", "node7"),
        ("(a)", "${1}x", "a", "ax"),
        ("(a)", "$1x", "a", ""),
        ("(a)", "$$1", "a", "$1"),
        ("(a)|(b)", "<$1$2>", "b", "<b>"),
        (".*", "$9", "any", ""),
        ("a.b", "yes", "a\nb", "yes"),
        ("b", "never", "abc", None),
    ],
)
def test_a_template_is_filled_as_go_fills_it(
    pattern: str, template: str, text: str, expected: str | None
) -> None:
    assert compile_pattern(pattern).expand(template, text) == expected


def test_a_pattern_that_does_not_parse_is_refused() -> None:
    with pytest.raises(PatternError):
        compile_pattern("(")
