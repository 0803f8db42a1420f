"""What is wrong with a template is said the same whether or not the parser was needed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.templates import TemplateError, check_template
from rules.templates.check import read

PIECES = st.sampled_from([
    "{{", "}}", "{", "}", "{{-", "-}}", " ", "$value", "$labels", "$labels.", ".job", "$", "$other",
    "{{ $value }}", "{{$labels.a}}", "{{ $labels.1 }}", "/*", "*/", "text", "\n", "a|b",
    "{{ end }}",
])  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=8).map("".join))
def test_what_is_said_is_what_the_parser_says(text: str) -> None:
    assert said(check_template(text)) == said(refusal(text))


def refusal(text: str) -> TemplateError | None:
    try:
        read(text)
    except TemplateError as error:
        return error
    return None


def said(error: TemplateError | None) -> object:
    return error and (error.message, error.span, error.hint)


@pytest.mark.parametrize("text", ["{{ $labels.a b }}", "{{ $labels. }}", "{{ $values }}", "{{}}"])
def test_what_only_looks_plain_is_refused(text: str) -> None:
    assert check_template(text) is not None
