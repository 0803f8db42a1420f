"""A snapshot is gone on from with the same bits, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.baselines import snapshot
from engine.baselines.anomaly.model import MODEL_VERSION
from engine.baselines.fold import Fold
from engine.baselines.points import Points
from engine.baselines.saved import SavedFolds
from engine.baselines.settings import BaselineSettings
from engine.baselines.snapshot import BadSnapshotError, decode, encode
from tests.engine.baselines.test_fold import (
    NEVER_MS,
    STEP_MS,
    STEPS,
    drawn,
    element,
    points_between,
)

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = BaselineSettings(max_series=3)
MIDDLE_MS, END_MS = STEPS * STEP_MS // 2, STEPS * STEP_MS


def folded(until_ms: int, seed: int = 1) -> Fold:
    fold = Fold(SETTINGS)
    fold.take(points_between(drawn(seed, 4), NEVER_MS, until_ms), until_ms, NEVER_MS)
    return fold


@pytest.mark.parametrize("seed", range(3))
def test_what_was_saved_goes_on_with_the_same_bits(seed: int) -> None:
    points = drawn(seed, 4)
    saved = folded(MIDDLE_MS, seed)
    found = decode(encode({"y": Fold(SETTINGS), "x": saved}), "x", SETTINGS)
    assert found is not None
    whole = folded(END_MS, seed)
    # Points shortly before the snapshot are read again.
    found.take(points_between(points, MIDDLE_MS - 20 * STEP_MS, END_MS), END_MS, 0)
    asked = np.arange(MIDDLE_MS, END_MS + 1, STEP_MS // 2, dtype=np.int64)
    keys = list(points)
    assert found.scores(keys, asked).tobytes() == whole.scores(keys, asked).tobytes()
    assert found.evicted == whole.evicted


def test_a_fold_of_another_resolution_or_model_is_not_gone_on_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = encode({"x": folded(MIDDLE_MS)})
    assert decode(content, "x", SETTINGS) is not None
    assert decode(content, "y", SETTINGS) is None
    assert decode(content, "x", BaselineSettings(resolution_ms=60_000)) is None
    monkeypatch.setattr(snapshot, "MODEL_VERSION", MODEL_VERSION + 1)
    assert decode(content, "x", SETTINGS) is None


def test_what_is_not_whole_is_refused() -> None:
    content = encode({"x": folded(MIDDLE_MS)})
    for damaged in (
        b"",
        b"something else",
        content[:-1],
        content[:100] + b"?" + content[101:],
        content + b"?",
    ):
        with pytest.raises(BadSnapshotError, match=r"is (no snapshot|damaged)"):
            decode(damaged, "x", SETTINGS)


def test_the_last_sound_one_before_a_time_is_taken(tmp_path: Path) -> None:
    times = []
    for until_ms in (100 * STEP_MS, 200 * STEP_MS, 300 * STEP_MS):
        path = tmp_path / f"{until_ms}.swb"
        path.write_bytes(encode({"x": folded(until_ms)}))
        times.append((until_ms, str(path)))
    saved = SavedFolds(lambda: times)

    def loaded(until_ms: int) -> int | None:
        fold = saved.load("x", until_ms, SETTINGS)
        return None if fold is None else fold.folded_ms

    assert loaded(100 * STEP_MS - 1) is None
    assert loaded(299 * STEP_MS) == 200 * STEP_MS
    (tmp_path / f"{200 * STEP_MS}.swb").write_bytes(b"torn")
    assert loaded(299 * STEP_MS) == 100 * STEP_MS
    (tmp_path / f"{300 * STEP_MS}.swb").unlink()
    assert loaded(301 * STEP_MS) == 100 * STEP_MS


@pytest.mark.parametrize(
    ("earlier", "said"),
    [(True, "an earlier one is taken"), (False, "there is no earlier one to go on from")],
)
def test_a_damaged_one_is_told_once_and_with_what_is_done_instead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, earlier: bool, said: str
) -> None:
    (tmp_path / "old").write_bytes(encode({"x": folded(100 * STEP_MS)}))
    (tmp_path / "new").write_bytes(b"torn")
    times = [(100 * STEP_MS, str(tmp_path / "old")), (200 * STEP_MS, str(tmp_path / "new"))]
    saved = SavedFolds(lambda: times if earlier else times[1:])
    for _ in range(3):
        assert (saved.load("x", 300 * STEP_MS, SETTINGS) is not None) is earlier
    (record,) = caplog.records
    assert record.getMessage() == f"{tmp_path}/new: is no snapshot of baselines; {said}"


def test_an_element_with_labels_of_any_text_comes_back() -> None:
    labels = element(0)[0].merged({"path": 'a"b\\c\nd, ü', "zone": "0"})
    fold = Fold(SETTINGS)
    key = (labels, True)
    fold.take([Points(key, np.array([10_000], dtype=np.int64), np.ones(1))], 10_000, 0)
    found = decode(encode({"x": fold}), "x", SETTINGS)
    assert found is not None
    assert list(found.elements) == [key]
