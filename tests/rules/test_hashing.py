from __future__ import annotations

import pytest

from rules.hashing import rules_hash
from rules.loader import load_source
from rules.source import Source

TEXT = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: sum(rate(x[5m])) by (a) > 1\n"


def _hash(text: str, name: str = "a.yaml") -> str:
    file = load_source(Source(name, text)).file
    assert file is not None
    return rules_hash([file])


@pytest.mark.parametrize(
    "text",
    [
        f"# a comment\n{TEXT}",
        TEXT.replace("sum(rate(x[5m])) by (a) > 1", '"sum by(a) (rate(x[300s]))   > 1"'),
        TEXT.replace("rules:", "interval: 0s\n  rules:"),
    ],
)
def test_layout_does_not_change_the_hash(text: str) -> None:
    assert _hash(text, "elsewhere.yaml") == _hash(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 1", "> 2"),
        ("alert: A", "alert: B"),
        ("alert: A", "record: A"),
        ("name: a", "name: b"),
        ("name: a", "name: a\n  interval: 1m"),
        ("alert: A", "alert: A\n    for: 1m"),
        ("alert: A", "alert: A\n    labels: {x: y}"),
        ("alert: A", "alert: A\n    annotations: {x: y}"),
    ],
)
def test_meaning_changes_the_hash(old: str, new: str) -> None:
    assert _hash(TEXT.replace(old, new)) != _hash(TEXT)
