from __future__ import annotations

from rules.templates.functions import FUNCTIONS
from rules.templates.names import GIVEN, LAZY, NAMES


def test_the_names_that_may_be_called_are_those_that_can_be_run() -> None:
    assert set(NAMES) == FUNCTIONS.keys() | LAZY | GIVEN
    assert len(NAMES) == len(set(NAMES))
