from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.templates import Sample, TemplateError, check_template, words_of
from rules.templates.expand import TemplateData, expand

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8")
)
RESULTS = {
    "up": [Sample({"instance": "b"}, 1.0), Sample({"instance": "a"}, 2.0)],
    "console_url": [Sample({"url": "http://c"}, 1.0)],
    "none": [],
    "up{job='node'}": [Sample({}, 3.0)],
}


def _data(value: float = 0.5) -> TemplateData:
    return TemplateData(
        labels={"instance": "node-1:9100", "job": "node", "n": "3"},
        value=value,
        external_labels={"region": "eu"},
        external_url="https://alerts.example/p",
        time_ms=1_700_000_000_000,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["text"])[:60])
def test_a_template_expands_as_in_prometheus(case: dict[str, Any]) -> None:
    data = _data(float(case.get("value", 0.5)))
    if "error" not in case:
        assert check_template(case["text"]) is None
        assert expand(case["text"], data, RESULTS.__getitem__) == case["expected"]
        return
    with pytest.raises(TemplateError) as caught:
        expand(case["text"], data, RESULTS.__getitem__)
    assert case["error"] in str(caught.value)


def test_the_functions_that_a_template_calls_are_found_whatever_its_strings_hold() -> None:
    asks = """{{ with printf "up{job='%s'}" $labels.job | query }}{{ . | first }}{{ end }}"""
    assert {"query", "first", "printf"} <= words_of(asks)
    assert "query" not in words_of('query {{ print "query" }} {{/* query */}} {{ .query }}')


def test_an_error_points_at_its_place() -> None:
    text = "node {{ $labels.instance }} {{ if gt $vale 1.0 }}x{{ end }}"
    error = check_template(text)
    assert error is not None
    assert text[error.span.start : error.span.end] == "$vale"
    assert error.hint == "did you mean '$value'?"


FRAGMENTS = st.lists(
    st.sampled_from([
        "{{", "}}", "{{-", " -}}", " ", "if", "else", "end", "range", "with", "$value", "$labels",
        ".", ".x", "|", "(", ")", '"a"', "1", "1.5", "eq", "printf", "humanize", ":=", "=", ",",
        "text", "query", "/*", "*/", "`", "'", "define", "template", "first", "$", "break", "%d",
    ]),
    max_size=24,
)  # fmt: skip


@given(FRAGMENTS, st.sampled_from(["", " "]), st.floats())
@settings(max_examples=600, deadline=None)
def test_any_text_expands_or_is_a_template_error(
    parts: list[str], separator: str, value: float
) -> None:
    text = separator.join(parts)
    try:
        expand(text, _data(value), lambda _: RESULTS["up"])
    except TemplateError as error:
        place = error.span
        assert 0 <= place.start <= len(text)
    else:
        assert check_template(text) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_float_reads_back_as_itself(value: float) -> None:
    text = expand("{{ $value }}", _data(value))
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
