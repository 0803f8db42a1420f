"""The promise: character i of a value stands at offsets[i] of the file, in every YAML style."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rules.document import Mapping, Scalar, compose
from rules.source import Source

WORDS = st.text(alphabet="ab5[]{}()'\"\\:#,>|é \t-%", max_size=12)
LINES = st.lists(WORDS, max_size=6)
SPACED = st.sampled_from(["\n", "\r\n"])


def _scalar(text: str) -> Scalar:
    document = compose(Source("t.yaml", text))
    assert not document.problems
    assert isinstance(document.root, Mapping)
    entry = document.root.get("expr")
    assert entry is not None
    assert isinstance(entry.value, Scalar)
    return entry.value


def _assert_mapped(text: str) -> None:
    scalar = _scalar(text)
    assert scalar.value == yaml.load(text, Loader=yaml.CBaseLoader)["expr"]
    offsets = scalar.offsets(text)
    assert len(offsets) == len(scalar.value) + 1
    assert list(offsets) == sorted(offsets)
    if len(scalar.value) > 1:
        assert offsets[-1] > offsets[0], "the map gave up"
    for char, offset in zip(scalar.value, offsets, strict=False):
        there = text[offset]
        if there == "\\" and scalar.style == '"':
            continue
        assert char == there or (char in " \n" and there in "\r\n"), (char, there, offset)


@pytest.mark.parametrize(
    "text",
    [
        "expr: up == 0 # comment\n",
        "expr: sum(\n    rate(x[5m])\n\n    ) > 1\nfor: 5m\n",
        "expr: 'it''s\n  folded'\n",
        'expr: "a\\tb \\u00e9 \\x41\\n  more \\\n    joined\n   x"\n',
        "expr: |\n  a\n    b\n\n  c\n",
        "expr: |-\n  a\n",
        "expr: |+\n  a\n\n\nfor: 1\n",
        "expr: |2\n    two more\n  a\n",
        "expr: >\n  a\n  b\n\n  c\n    d\n  e\n",
        "expr: >-  # comment\n  a\n  b\n",
        "expr: >+1\n  a\n b\n\n",
        "expr: &anchor |\n  a\n",
        "expr: !!str &a 'x y'\n",
        "expr: &a\n  # comment\n  plain\n",
        "a:\n  - b\nexpr: |\n     deep\n      er\n",
        'expr: "\\U0001F600 after"\n',
        "expr: \U0001f600 > 1\n",
    ],
)
def test_each_yaml_style_is_mapped(text: str) -> None:
    _assert_mapped(text)


@given(LINES, st.sampled_from("|>"), st.sampled_from(["", "-", "+"]), st.integers(1, 4), SPACED)
@settings(max_examples=300, deadline=None)
def test_any_block_scalar_is_mapped(
    lines: list[str], style: str, chomping: str, indent: int, newline: str
) -> None:
    body = "".join(" " * indent + line + newline for line in lines)
    text = f"expr: {style}{indent}{chomping}{newline}{body}for: 1{newline}"
    _assert_mapped(text)


@given(LINES, SPACED)
@settings(max_examples=300, deadline=None)
def test_any_single_quoted_scalar_is_mapped(lines: list[str], newline: str) -> None:
    body = f"{newline}  ".join(lines).replace("'", "''")
    _assert_mapped(f"expr: '{body}'{newline}")


@given(LINES, SPACED)
@settings(max_examples=300, deadline=None)
def test_any_double_quoted_scalar_is_mapped(lines: list[str], newline: str) -> None:
    body = f"{newline}  ".join(json.dumps(line)[1:-1] for line in lines)
    _assert_mapped(f'expr: "{body}"{newline}')


@given(LINES, SPACED)
@settings(max_examples=300, deadline=None)
def test_any_plain_scalar_is_mapped(lines: list[str], newline: str) -> None:
    text = "expr: a" + f"{newline}  ".join(lines) + newline
    document = compose(Source("t.yaml", text))
    assume(not document.problems and isinstance(document.root, Mapping))
    assert isinstance(document.root, Mapping)
    assume(len(document.root.entries) == 1)
    assume(isinstance(document.root.entries[0].value, Scalar))
    assume(document.root.get("expr") is not None)
    _assert_mapped(text)
