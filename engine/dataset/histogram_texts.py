"""The column of native histograms: texts kept as they are, once each is known to be one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.native_histogram import Histogram, HistogramError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Float64Array, TextArray


def mistake(text: str) -> str:
    """What keeps a text from being a native histogram, "" if it is one."""
    try:
        Histogram.read(text)
    except HistogramError as error:
        return str(error)
    return ""


def parse_histograms(column: Sequence[str]) -> tuple[TextArray | None, int | None, str]:
    """object[N], None for a float; the position of the first bad text, and what is wrong with it.

    None for a column without any.
    """
    known: dict[str, str | None] = {}
    found = np.empty(len(column), dtype=np.object_)
    for row, raw in enumerate(column):
        if raw not in known:
            text = raw.strip()
            wrong = mistake(text) if text else ""
            if wrong:
                return None, row, wrong
            known[raw] = text or None
        found[row] = known[raw]
    return (found if any(known.values()) else None), None, ""


def settle(texts: TextArray, values: Float64Array) -> tuple[Float64Array, int | None]:
    """Values with NaN for each histogram, and the first row that has a number as well as one.

    A NaN is no number here: it is what fills empty fields.
    """
    native = np.array([text is not None for text in texts], dtype=np.bool_)
    doubled = native & ~np.isnan(values)
    settled: Float64Array = np.where(native, np.nan, values)
    # Through the integer view, for a staleness marker keeps its bits only there.
    settled.view(np.uint64)[~native] = np.ascontiguousarray(values).view(np.uint64)[~native]
    return settled, int(np.argmax(doubled)) if doubled.any() else None
