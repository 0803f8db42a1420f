"""OpenMetrics' `_created` series, taken for the start timestamps of the series they belong to.

As Prometheus reads them: those of counters, histograms and summaries, matched by all labels but
`le` and `quantile`, are seconds since when the samples of their family count, and no series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.dataset.times import LATEST_MS
from engine.labels import METRIC_NAME
from engine.series import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.labels import Labels
    from engine.series import Int64Array

_CREATED = "_created"
# Of each type, the series that count, and the label that tells those of one metric apart.
_FAMILIES = {
    "counter": (("_total", ""), ""),
    "histogram": (("_bucket", "_count", "_sum"), "le"),
    "summary": (("", "_count", "_sum"), "quantile"),
}


def with_starts(series: Sequence[Series], types: Mapping[str, str]) -> tuple[Series, ...]:
    """The series, sorted as they came, less the `_created` ones, which are in `starts_ms`.

    `types`: of each metric family, as `# TYPE` has it.
    """
    created = {
        one.labels: one
        for one in series
        if one.labels.name.endswith(_CREATED)
        and types.get(one.labels.name.removesuffix(_CREATED)) in _FAMILIES
    }
    if not created:
        return tuple(series)
    owners = {
        family + suffix: (family, _FAMILIES[kind][1])
        for family, kind in types.items()
        if kind in _FAMILIES
        for suffix in _FAMILIES[kind][0]
    }
    found = []
    for one in series:
        if one.labels in created:
            continue
        family, apart = owners.get(one.labels.name, ("", ""))
        began = created.get(_created_labels(one.labels, family, apart)) if family else None
        found.append(one if began is None else _started(one, began))
    return tuple(found)


def _created_labels(labels: Labels, family: str, apart: str) -> Labels:
    own = labels.without(apart) if apart else labels
    return own.merged({METRIC_NAME: family + _CREATED})


def _started(series: Series, created: Series) -> Series:
    """Each sample with the newest start that is told at its time or before."""
    newest = np.searchsorted(created.timestamps_ms, series.timestamps_ms, side="right") - 1
    starts = np.where(newest >= 0, _milliseconds(created)[np.maximum(newest, 0)], 0)
    return Series(
        series.labels,
        series.timestamps_ms,
        series.values,
        series.histograms,
        starts if starts.any() else None,
    )


def _milliseconds(created: Series) -> Int64Array:
    """Seconds as milliseconds, 0 for what is no time."""
    seconds = created.values
    sound = (seconds > 0) & (seconds <= LATEST_MS / 1000)
    found: Int64Array = np.round(np.where(sound, seconds, 0.0) * 1000).astype(np.int64)
    return found
