"""Labels as PromQL spells them."""

from __future__ import annotations

import pytest

from engine.labels import Labels


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"__name__": "up"}, "up"),
        ({"__name__": "up", "job": 'a"b'}, r'up{job="a\"b"}'),
        ({"job": "a"}, '{job="a"}'),
        ({"__name__": "odd.name", "a": "b"}, '{"odd.name", a="b"}'),
        ({"__name__": "up", "a b": "c"}, 'up{"a b"="c"}'),
        ({}, "{}"),
    ],
)
def test_labels_read_as_a_selector(labels: dict[str, str], text: str) -> None:
    assert str(Labels(labels)) == text
