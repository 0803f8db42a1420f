"""Marks tell an author's characters from a value's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rules.templates.marks import as_value, marked, runs, stripped, unmarked

PLAIN = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(st.booleans(), PLAIN)))
def test_each_character_keeps_whose_it_is(pieces: list[tuple[bool, str]]) -> None:
    text = "".join(marked(piece) if written else as_value(piece) for written, piece in pieces)
    found = [(written, char) for written, piece in runs(text) for char in piece]
    assert found == [(written, char) for written, piece in pieces for char in piece]


@given(st.text())
def test_no_value_is_an_authors_whatever_it_holds(text: str) -> None:
    assert not any(written for written, _ in runs(as_value(text)))


@given(st.text(st.characters(exclude_categories=["Cs", "Co"])))
def test_an_authors_text_is_read_as_it_was_written(text: str) -> None:
    assert unmarked(marked(text)) == text
    assert "".join(piece for _, piece in runs(marked(text))) == text


def test_white_space_is_stripped_whoever_wrote_it() -> None:
    assert unmarked(stripped(marked("\n ") + " a b " + marked("c \n"))) == "a b c"
