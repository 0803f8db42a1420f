"""What the rules of an agent have learnt: moved by evaluations, saved each hour, read at a start.

Saved states are only a cache: whatever is missing is folded again from the recording.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.baselines.folds import Folds
from engine.baselines.identity import baselines_in
from engine.baselines.saved import SavedFolds
from engine.baselines.snapshot import encode
from engine.promql.engine import evaluate
from engine.promql.value import Axis
from engine.store.store import HOUR_MS
from rules.errors import StallwatchError
from rules.promql.reach import reach_ms
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.baselines.settings import BaselineSettings
    from engine.promql.context import Options
    from engine.recording import Recorder, Recording, Unrecorded
    from engine.series import Queryable
    from engine.store import Store
    from engine.telemetry import OwnSample
    from rules.model import RuleFile
    from rules.promql.ast import Call

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Baselines:
    """The folds of the rules' expressions, over the live window and what was recorded before.

    `options`: how expressions are evaluated.
    """

    settings: BaselineSettings
    options: Options
    recorder: Recorder | Unrecorded
    store: Store
    folds: Folds = field(init=False)
    _calls: dict[str, Call] = field(default_factory=dict)
    # Snapshots are written for every hour that ends after this one began.
    _hour_ms: int = 0
    _told: list[OwnSample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folds = Folds(self.settings, saved=SavedFolds(self.recorder.snapshots))

    def follow(self, files: Iterable[RuleFile], recording: Recording | None, now_ms: int) -> None:
        """Learn for these rules from now on; what is new has learnt from all that is recorded."""
        is_start = not self._hour_ms
        self._hour_ms = self._hour_ms or now_ms // HOUR_MS * HOUR_MS
        self._calls = {}
        for file in files:
            for group in file.groups:
                for rule in group.rules:
                    for expression in rule.expressions:
                        self._calls.update(baselines_in(expression.tree))
        self.folds.only(frozenset(self._calls))
        if recording is None or not recording.end_ms:
            return
        if self.folds.origin_ms is None:
            self.folds.origin_ms = recording.start_ms
        for text, call in self._calls.items():
            if text not in self.folds.by_text:
                self._catch_up(text, call, recording)
        if is_start and self._calls:
            # An agent that was killed left none with its last file.
            self._write(recording.end_ms)

    def began(self, time_ms: int) -> None:
        """There is a flush of this time: the first one of all is where the data begin."""
        if self.folds.origin_ms is None:
            self.folds.origin_ms = time_ms

    def before(self, time_ms: int) -> None:
        """An evaluation at a time is to come: save what was learnt in the hours before it."""
        hour_ms = time_ms // HOUR_MS * HOUR_MS
        if hour_ms <= self._hour_ms:
            return
        self._hour_ms = hour_ms
        try:
            self.save(hour_ms - 1)
        except Exception:
            # It is a cache: no rule may go unevaluated for it.
            LOG.exception("no snapshot of baselines: a start will go on from an earlier one")

    def save(self, time_ms: int) -> None:
        """Write what was learnt by a time, all points up to it and none later."""
        if not self._calls:
            return
        for text, call in self._calls.items():
            self._move(text, call, time_ms, self.store)
        self._write(time_ms)

    def stop(self, flushed_ms: int) -> None:
        """The last flush was of this time; the hour is not full, and the next start goes on."""
        if flushed_ms:
            self.save(flushed_ms)

    def samples(self) -> list[OwnSample]:
        """How far baselines have learnt; what was told before while they are being moved.

        A flush must not wait for an evaluation.
        """
        if not self.folds.lock.acquire(blocking=False):
            return self._told
        try:
            self._told = list(_samples(self.folds))
        finally:
            self.folds.lock.release()
        return self._told

    def _write(self, time_ms: int) -> None:
        with self.folds.lock:
            content = encode(
                {
                    text: fold
                    for text, fold in self.folds.by_text.items()
                    if fold.folded_ms is not None and fold.folded_ms <= time_ms
                }
            )
        self.recorder.write_snapshot(time_ms, content)

    def _catch_up(self, text: str, call: Call, recording: Recording) -> None:
        """Fold what was recorded since the last snapshot, from the live window if that has it."""
        fold = self.folds.begin(text, recording.end_ms)
        reach = reach_ms(call, self.options.lookback_ms)
        held_ms = recording.end_ms - self.store.window_ms + 2 * reach
        recent = fold.folded_ms is not None and fold.folded_ms >= held_ms
        if fold.folded_ms is None:
            LOG.info("baseline %s: no snapshot, it learns from the first recorded sample on", text)
        source: Queryable = self.store if recent else recording.with_derived()
        self._move(text, call, recording.end_ms, source)

    def _move(self, text: str, call: Call, time_ms: int, source: Queryable) -> None:
        own = replace(self.options, folds=self.folds, shared=None)
        try:
            evaluate(call, Axis.instant(time_ms), source, own)
        except StallwatchError as error:
            LOG.warning("baseline %s: %s", text, error)


def _samples(folds: Folds) -> Iterator[OwnSample]:
    for text, fold in folds.by_text.items():
        labels = (("baseline", text),)
        yield "stallwatch_baseline_ready", labels, "gauge", fold.ready_ratio()
        yield "stallwatch_baseline_series", labels, "gauge", float(len(fold.elements))
        yield "stallwatch_baseline_evicted_total", labels, "counter", float(fold.evicted)
