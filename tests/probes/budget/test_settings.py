"""The section `budget`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from probes.budget.settings import BudgetConfig


def test_by_default_a_probe_may_take_one_per_cent() -> None:
    settings = BudgetConfig()
    assert settings.ratio == 0.01
    assert settings.ladder == ("duty", "colder", "sampled")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"ratio": 0}, "greater than 0"),
        ({"ratio": 2}, "less than or equal to 1"),
        ({"slice": "500ms"}, "a slice is at least 1s"),
        ({"ladder": ["cooler"]}, "'colder', 'duty' or 'sampled'"),
        ({"percent": 1}, "Extra inputs are not permitted"),
    ],
)
def test_what_makes_no_sense_is_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BudgetConfig.model_validate(section)
