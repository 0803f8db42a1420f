"""Reading plain lines together gives what reading each of them by itself gives, errors too."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.dataset.exposition import read_exposition
from engine.dataset.exposition_plain import PlainLines
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Outcome: TypeAlias = "str | tuple[list[tuple[str, bytes, bytes, object]], tuple[str, ...]]"
SERIES = ("up", 'up{a="b"}', 'up{a="b c"}', 'up {a="b"}', '{"a name",x="y"}', 'up{a="ü 1 2"}')
NUMBERS = ("1", "0.5", "1.7e9", "-0", "2", "1700000000000", "1700000000.125", "1", "3")
VALUES = (*NUMBERS, "NaN", "+Inf", "-inf")
ODD = (
    "", "# TYPE up counter", "# EOF", "up", "up 1", "up  1 2", "up 1  2", "up 1 2 ", "up\t1 2",
    'up 1 2 # {t="x"} 1 2', "up 1 2 st@1", 'up{a="b"} 1_0 2', "up 1 1_0", "up 1e999 2", "up x 2",
    "up 1 x", "up 1 1e99", "up 1 nan", "up 1 0.5", " up 1 2", "up 1 2\r", "up \x0b1 2", "up # 1",
    "up {count:1,sum:1,schema:0} 2", "up 1 \u0661",
)  # fmt: skip
LINE = st.one_of(
    st.builds(
        " ".join,
        st.tuples(st.sampled_from(SERIES), st.sampled_from(VALUES), st.sampled_from(NUMBERS)),
    ),
    st.sampled_from(SERIES).map(lambda own: f"{own} 1 2"),
)


def outcome(path: Path) -> Outcome:
    try:
        found = read_exposition(str(path))
    except StallwatchError as error:
        return str(error)
    return [
        (
            str(one.labels),
            one.timestamps_ms.tobytes(),
            one.values.tobytes(),
            None if one.starts_ms is None else one.starts_ms.tolist(),
        )
        for one in found.series
    ], found.notices


@settings(max_examples=300, deadline=None)
@given(
    before=st.lists(LINE, max_size=12),
    odd=st.lists(st.one_of(LINE, st.sampled_from(ODD)), max_size=2),
    after=st.lists(LINE, max_size=6),
    seconds=st.booleans(),
)
def test_plain_lines_read_together_are_what_they_are_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[str],
    odd: list[str],
    after: list[str],
    seconds: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "data.prom"
    lines = [*before, *odd, *after, *(["# EOF"] if seconds else [])]
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    together = outcome(path)
    with patch.object(PlainLines, "take", return_value=False):
        assert outcome(path) == together


def test_lines_of_series_that_were_read_before_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "data.prom"
    path.write_text("".join(f'up{{a="b c"}} {n} {n}\n' for n in range(1, 100)))
    taken = []
    take = PlainLines.take

    def told(self: PlainLines, line: bytes) -> bool:
        taken.append(take(self, line))
        return taken[-1]

    with patch.object(PlainLines, "take", told):
        (series,) = read_exposition(str(path)).series
    assert taken == [False] + [True] * 98
    assert series.values.tolist() == list(range(1, 100))
