"""The baselines of recorded data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.baselines.folds import Folds
from engine.baselines.settings import BaselineSettings

if TYPE_CHECKING:
    from engine.dataset import Dataset


def folds_of(dataset: Dataset, settings: BaselineSettings | None = None) -> Folds:
    """Folds from the first sample of the data on."""
    return Folds(settings or BaselineSettings(), dataset.start_ms)
