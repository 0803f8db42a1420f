"""Mistakes in `probes: custom:`, as a user makes them, beside what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.config.loader import load_config
from probes.custom.names import OURS, metric_problem
from probes.custom.settings import CustomSettings, ProbeConfig
from probes.custom.slots import plan
from rules.source import ProblemsError

CASES = Path(__file__).with_name("cases")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_mistake_is_shown_at_its_place(case: Path, tmp_path: Path) -> None:
    file = tmp_path / "stallwatch.yaml"
    file.write_text(case.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ProblemsError) as caught:
        load_config(file)
    shown = str(caught.value).replace(f"{tmp_path}/", "")
    assert shown.rstrip() == case.with_suffix(".txt").read_text(encoding="utf-8").rstrip()


def test_every_metric_that_the_documentation_names_is_refused() -> None:
    table = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    names = {name for line in table.splitlines() if line.startswith("| `")
             for name in re.findall(r"`([a-z]+_[a-z_]+)`", line.split("|")[1])}  # fmt: skip
    assert len(names) > 30
    free = [name for name in sorted(names) if not name.startswith(OURS)]
    assert not free, "a new metric's beginning belongs into OURS of probes/custom/names.py"


def test_names_that_prometheus_would_have_are_accepted() -> None:
    for name, take in [
        ("a_total", "count"), ("a_seconds", "latency"), ("a_bytes_total", "bytes"),
        ("queue_depth", "value"), ("batch_size", "histogram"),
    ]:  # fmt: skip
        assert metric_problem(name, take) == ""


def test_slots_are_one_per_name_of_the_label_and_argument() -> None:
    probe = ProbeConfig.model_validate(
        {
            "name": "p",
            "library": "l",
            "symbol": ["a", "b"],
            "label_from": {"label": "way", "argument": 2, "type": "int", "names": {"-1": "down"}},
            "metrics": [
                {"name": "x_bytes_total", "take": "bytes", "argument": 3},
                {"name": "x", "take": "histogram", "argument": 3},
            ],
        }
    )
    layout = plan([probe, probe])
    assert [slot.labels for slot in layout.slots[:4]] == [
        (("way", "down"),), (("way", "other"),), (("way", "down"),), (("way", "other"),),
    ]  # fmt: skip
    assert [slot.argument for slot in layout.slots[:4]] == [None, None, (3, "long"), (3, "long")]
    assert layout.rules[0][:16] == bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0])
    assert layout.rules[1][0] == 4
    assert layout.rules[0][16:24] == b"\xff" * 8
    assert not probe.timed
    assert layout.slots[2].value((1 << 64) - 5) == -5.0


def test_the_defaults_are_no_probes() -> None:
    assert CustomSettings().probes == ()
