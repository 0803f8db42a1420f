"""Settings that cannot be meant, in a file, with the place and the mend of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.loader import load_config
from rules.source import ProblemsError

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_is_named_with_its_place(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES)
    with pytest.raises(ProblemsError) as caught:
        load_config(case.name)
    assert f"{caught.value}\n" == case.with_suffix(".expected").read_text(encoding="utf-8")
