"""Recorded data come with how their baselines learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.baselines.anomaly.settings import Learning
from engine.baselines.of_data import folds_of
from engine.baselines.settings import BaselineSettings
from engine.config.loader import load_config
from engine.dataset import open_data
from engine.flush import Flush
from engine.labels import Labels
from engine.recording import Recorder
from engine.rulegroup.options import GroupOptions

if TYPE_CHECKING:
    from pathlib import Path

OWN = BaselineSettings(60_000, 3_600_000, 7, Learning(pause=False, accept_points=9))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    recorder = Recorder(str(tmp_path / "recording"))
    recorder.write(Flush(1_700_000_000_000, (Labels.of(__name__="x"),), np.ones(1), ()))
    recorder.log_baselines(OWN.to_json(), 1_700_000_000_000)
    recorder.close()
    return recorder.path


def test_a_dry_run_learns_as_the_agent_did(folder: str) -> None:
    data = open_data(folder)
    assert folds_of(data).settings == OWN
    assert folds_of(data).origin_ms == data.start_ms
    assert folds_of(data.with_derived()).settings == OWN


def test_a_configuration_that_says_how_has_the_last_word(folder: str, tmp_path: Path) -> None:
    data, config = open_data(folder), tmp_path / "stallwatch.yaml"
    config.write_text("baselines: {resolution: 30s, ttl: 1d, max_series: 5, accept_points: 3}\n")
    settings = GroupOptions.of(load_config(config)).baselines
    assert settings == BaselineSettings(30_000, 86_400_000, 5, Learning(accept_points=3))
    assert folds_of(data, settings).settings == settings
    config.write_text("cluster: c\n")
    assert GroupOptions.of(load_config(config)).baselines is None


def test_other_data_are_learnt_from_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("timestamp,value\n1700000000000,1\n")
    folds = folds_of(open_data(str(path)))
    assert folds.settings == BaselineSettings()
    assert folds.origin_ms == 1_700_000_000_000


@pytest.mark.parametrize("row", [{}, {"resolution_ms": "soon", "ttl_ms": 0, "max_series": -1}])
def test_what_a_recording_does_not_say_is_as_always(row: dict[str, object]) -> None:
    assert BaselineSettings.of_json(row) == BaselineSettings()
    assert BaselineSettings.of_json(OWN.to_json() | {"later": 1}) == OWN
