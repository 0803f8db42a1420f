"""Series and frames keep what few samples have: histogram texts and start timestamps."""

from __future__ import annotations

import numpy as np
import pytest

from engine.dataset.dataset import cut, union
from engine.labels import Labels
from engine.promql.frame import Frame
from engine.series import Series

TIMES = np.array([10, 20, 30, 40], dtype=np.int64)
NAMES = Labels.of(__name__="h")


def texts(*items: str | None) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    return np.array(items, dtype=np.object_)


def mixed() -> Series:
    return Series(
        NAMES,
        TIMES,
        np.array([1.0, np.nan, 3.0, 4.0]),
        texts(None, "{{count:1}}", None, None),
        np.array([0, 5, 5, 35], dtype=np.int64),
    )


def test_a_plain_series_stays_plain() -> None:
    plain = Series(NAMES, TIMES, np.arange(4.0))
    part = plain.picked(slice(1, 3))
    assert part.is_plain
    assert part.histogram_mask is None
    assert part.values.tolist() == [1, 2]
    assert Series.joined((part, plain.picked(slice(3, 4)))).is_plain


def test_a_cut_keeps_texts_and_start_timestamps() -> None:
    (part,) = cut([mixed()], 20, 30)
    assert part.histograms is not None
    assert part.histograms.tolist() == ["{{count:1}}", None]
    assert part.starts_ms is not None
    assert part.starts_ms.tolist() == [5, 5]
    assert part.histogram_mask is not None
    assert part.histogram_mask.tolist() == [True, False]


def test_a_part_without_histograms_has_none() -> None:
    part = mixed().picked(slice(2, 4))
    assert part.histograms is None
    assert part.starts_ms is not None


@pytest.mark.parametrize("flipped", [False, True])
def test_parts_of_which_only_one_has_them_join(*, flipped: bool) -> None:
    later = Series(NAMES, TIMES + 40, np.arange(4.0))
    parts = [later, mixed()] if flipped else [mixed(), later]
    (whole,) = union(parts)
    assert whole.timestamps_ms.tolist() == [10, 20, 30, 40, 50, 60, 70, 80]
    assert whole.histograms is not None
    assert whole.histograms.tolist() == [None, "{{count:1}}", *[None] * 6]
    assert whole.starts_ms is not None
    assert whole.starts_ms.tolist() == [0, 5, 5, 35, 0, 0, 0, 0]


def test_frames_keep_which_elements_are_histograms() -> None:
    native = np.array([[True, False], [False, False]])
    present = np.array([[True, True], [True, False]])
    names = (Labels.of(a="1"), Labels.of(a="2"))
    frame = Frame(names, np.zeros((2, 2)), present, (False, False), histograms=native)
    assert frame.take([1, 0]).native().tolist() == [[False, False], [True, False]]  # type: ignore[union-attr]
    assert frame.take([1]).native() is None
    assert frame.without_histograms().present.tolist() == [[False, True], [True, False]]
    plain = Frame((Labels.of(a="3"),), np.zeros((1, 2)), present[:1], (False,))
    both = Frame.stacked((plain, frame))
    assert both.histograms is not None
    assert both.histograms.tolist() == [[False, False], [True, False], [False, False]]
    assert Frame.stacked((plain, plain.take([0]))).histograms is None


def test_rows_that_become_one_keep_which_elements_are_histograms() -> None:
    names = (Labels.of(a="1"),) * 2
    present = np.array([[True, False], [False, True]])
    native = np.array([[False, False], [False, True]])
    frame = Frame(names, np.zeros((2, 2)), present, (False, False), histograms=native).merged()
    assert frame.histograms is not None
    assert frame.histograms.tolist() == [[False, True]]
