"""The baselines of recorded data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from engine.baselines.folds import Folds
from engine.baselines.saved import SavedFolds
from engine.baselines.settings import BaselineSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.dataset import Dataset


@runtime_checkable
class Remembering(Protocol):
    """Data that come with what an agent had learnt from them: a recording."""

    @property
    def baselines(self) -> Mapping[str, object] | None:
        """How it learnt; None if that is not known."""
        ...

    def snapshots(self) -> Sequence[tuple[int, str]]:
        """(time in unix milliseconds, path) of each snapshot, oldest first."""
        ...


def folds_of(dataset: Dataset, settings: BaselineSettings | None = None) -> Folds:
    """Folds that begin at the first sample of the data, or at the last snapshot before they start.

    `settings`: None for those of the recording, else the usual ones.
    """
    if not isinstance(dataset, Remembering):
        return Folds(settings or BaselineSettings(), dataset.start_ms)
    recorded = BaselineSettings.of_json(dataset.baselines or {})
    return Folds(settings or recorded, dataset.start_ms, SavedFolds(dataset.snapshots))
