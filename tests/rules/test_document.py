from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.document import MOST_NODES, Mapping, Node, Scalar, Sequence, compose
from rules.source import LONGEST_LINE, Problem, Source, Span


def _plain(node: Node | None) -> object:
    if isinstance(node, Mapping):
        return {entry.key.value: _plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [_plain(item) for item in node.items]
    return None if node is None else node.value


def _text(text: str, span: Span) -> str:
    return text[span.start : span.end]


def test_every_node_knows_its_place() -> None:
    text = "a: [x, 'y z']\nb:\n  c: &n !!str d # e\n"
    root = compose(Source("t", text)).root
    assert isinstance(root, Mapping)
    first, second = root.entries
    assert isinstance(first.value, Sequence)
    assert [_text(text, item.span) for item in first.value.items] == ["x", "'y z'"]
    assert isinstance(second.value, Mapping)
    leaf = second.value.entries[0].value
    assert _text(text, second.value.entries[0].key.span) == "c"
    assert _text(text, leaf.span) == "d"


def test_own_keys_come_before_merged_ones_and_earlier_merges_before_later() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  a: 0\n"
    root = compose(Source("t", text)).root
    assert isinstance(root, Mapping)
    merged = root.get("z")
    assert merged is not None
    assert _plain(merged.value) == {"a": "0", "b": "1", "c": "2"}


def test_a_quoted_merge_key_is_a_key() -> None:
    root = compose(Source("t", "'<<': a\n")).root
    assert isinstance(root, Mapping)
    assert root.entries[0].key.value == "<<"


@pytest.mark.parametrize(
    ("text", "null"), [("~", True), ("null", True), ("", True), ("''", False), ("nil", False)]
)
def test_what_stands_for_nothing(text: str, null: bool) -> None:
    root = compose(Source("t", f"a: {text}\n")).root
    assert isinstance(root, Mapping)
    value = root.entries[0].value
    assert isinstance(value, Scalar)
    assert value.null is null


def test_a_large_honest_file_is_no_bomb() -> None:
    text = "a:\n" + "- x\n" * (MOST_NODES // 20)
    assert compose(Source("t", text)).problems == ()


SCALARS = st.text(alphabet="ab: #-'\"\n\\{}[]&*!|>%@,\té", max_size=12)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=12,
)


@given(TREES, st.booleans(), st.integers(20, 100))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(tree: object, flow: bool, width: int) -> None:
    text = yaml.dump({"top": tree}, default_flow_style=flow, width=width, allow_unicode=True)
    document = compose(Source("t", text))
    merge_key = "<<" in text
    assert document.problems == () or merge_key
    assert _plain(document.root) == {"top": tree} or merge_key


def test_a_long_line_is_shown_around_its_caret() -> None:
    text = "x" * 5_000 + "!" + "y" * 5_000
    shown = Problem(Source("t", text), Span(5_000, 5_001), "wrong").render().splitlines()
    assert shown[0] == "t:1:5001: wrong"
    assert len(shown[1]) < LONGEST_LINE + 20
    assert shown[1][shown[2].index("^")] == "!"
