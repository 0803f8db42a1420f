"""info(): series enriched with the labels of the info metrics of their target.

An info metric (by default `target_info`) and a series belong together if `instance` and `job` are
equal. Source: promql/info.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.labels import METRIC_NAME, Labels
from engine.matching import Selection
from engine.promql import selection
from engine.promql.errors import EvaluationError
from engine.promql.frame import Frame
from rules.promql.ast import Matcher, VectorSelector
from rules.promql.walk import unwrapped
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from engine.promql.context import Context, Partial
    from engine.promql.windows import IndexArray
    from engine.series import BoolArray, Int64Array
    from rules.promql.ast import Call, Expr

IDENTIFYING = ("instance", "job")
DEFAULT_METRIC = "target_info"
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class InfoMetrics:
    """The info series at each step. `newest[metric, target]`: the row that counts, [T], or NONE."""

    labels: tuple[Labels, ...]
    newest: dict[str, dict[Labels, IndexArray]]


def info(context: Context, call: Call) -> Partial:
    """The vector (argument 0) with data labels of the info metrics that argument 1 selects."""
    frame = context.frame(call.args[0]).without_absent()
    matchers = _matchers(call)
    names = tuple(one for one in matchers if one.label == METRIC_NAME)
    wanted = tuple(one for one in matchers if one.label != METRIC_NAME)
    own = Selection(names)
    # What is an info series itself is left as it is.
    plain = [bool(names) and own.accepts(labels.only(METRIC_NAME)) for labels in frame.labels]
    bases = [labels for labels, skip in zip(frame.labels, plain, strict=True) if not skip]
    found = _info_metrics(context, call, matchers, bases, frame)
    required = not Selection(wanted).accepts(Labels())
    data_labels = {one.label for one in wanted}
    parts = []
    for row, skip in enumerate(plain):
        single = frame.take([row])
        if skip:
            parts.append(single)
        else:
            parts += _enriched(single, found, data_labels, call, required=required)
    parts = [part for part in parts if part.labels]
    return Frame.stacked(parts).merged(call.span) if parts else Frame.empty(frame.steps)


def _matchers(call: Call) -> tuple[Matcher, ...]:
    """What argument 1 says; without a name it is about the default metric."""
    default = Matcher(call.span, METRIC_NAME, "=", DEFAULT_METRIC)
    if len(call.args) < 2:
        return (default,)
    selector = unwrapped(call.args[1])
    if not isinstance(selector, VectorSelector):
        raise EvaluationError("expected a label selector here", selector.span)
    return selector.matchers


def _info_metrics(
    context: Context, call: Call, matchers: tuple[Matcher, ...], bases: list[Labels], frame: Frame
) -> InfoMetrics:
    """The newest info series of each target and metric at each step."""
    known = {name: {base.get(name) for base in bases} - {""} for name in IDENTIFYING}
    known = {name: values for name, values in known.items() if values}
    if not known:
        return InfoMetrics((), {})
    if not any(one.label == METRIC_NAME for one in matchers):
        matchers = (Matcher(call.span, METRIC_NAME, "=", DEFAULT_METRIC), *matchers)
    selected = selection.instant(context, VectorSelector(call.span, None, matchers))
    labels, present = selected.frame.labels, selected.frame.present
    if selected.frame.native() is not None:
        raise EvaluationError("info sample should be float", call.span)
    groups: dict[tuple[str, Labels], list[int]] = {}
    for row, one in enumerate(labels):
        if all(one.get(name) in values for name, values in known.items()):
            groups.setdefault((one.name, one.only(*IDENTIFYING)), []).append(row)
    times = np.where(present, selected.sample_times_ms, np.iinfo(np.int64).min)
    asked = frame.present.any(axis=0)
    newest: dict[str, dict[Labels, IndexArray]] = {}
    for (metric, target), rows in groups.items():
        own = times[rows]
        seen = present[rows].any(axis=0)
        _require_one(own, np.logical_and(seen, asked), [labels[row] for row in rows], call.args[0])
        winner = np.where(seen, np.array(rows)[own.argmax(axis=0)], NONE)
        newest.setdefault(metric, {})[target] = winner
    return InfoMetrics(labels, newest)


def _require_one(times: Int64Array, steps: BoolArray, labels: list[Labels], arg: Expr) -> None:
    """No two info series of one target and metric may have samples of one time."""
    newest = times.max(axis=0)
    clash = steps & ((times == newest).sum(axis=0) > 1)
    if not clash.any():
        return
    step = int(clash.argmax())
    first, second = np.flatnonzero(times[:, step] == newest[step])[:2].tolist()
    at = int(newest[step])
    raise EvaluationError(
        f"found duplicate series for info metric: existing {labels[first]} @ {at}, "
        f"new {labels[second]} @ {at}",
        arg.span,
    )


def _enriched(
    single: Frame, found: InfoMetrics, data_labels: set[str], call: Call, *, required: bool
) -> list[Frame]:
    """One series, [1, T], split by the info series that it has at each step."""
    (labels,) = single.labels
    target = labels.only(*IDENTIFYING)
    winners = [one[target] for one in found.newest.values() if target in one]
    if not winners:
        return [] if required else [single]
    stacked = np.stack(winners)
    parts = []
    for column in np.unique(stacked[:, single.present[0]], axis=1).T:
        here = single.only_where((stacked == column[:, None]).all(axis=0))
        rows = [row for row in column.tolist() if row != NONE]
        if not rows:
            parts += [] if required else [here]
            continue
        more = _data_labels(labels, [found.labels[row] for row in rows], data_labels, call)
        parts.append(replace(here, labels=(labels.merged(more),)))
    return parts


def _data_labels(
    base: Labels, infos: list[Labels], data_labels: set[str], call: Call
) -> dict[str, str]:
    """The labels that info series add to a series; what it has already stays."""
    more: dict[str, str] = {}
    for name, value in (pair for one in infos for pair in one.pairs):
        if name == METRIC_NAME or (data_labels and name not in data_labels):
            continue
        if more.setdefault(name, value) != value:
            raise EvaluationError(f"conflicting label: {name}", call.span)
    return {name: value for name, value in more.items() if name not in base}
