"""The snapshots in a recording's folder, as folds go on from them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from engine.baselines.snapshot import BadSnapshotError, decode
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.baselines.fold import Fold
    from engine.baselines.settings import BaselineSettings

LOG = logging.getLogger(__name__)
# Older ones than these are not looked at: one that is lost is no reason to read all.
MOST_TRIED = 3


@dataclass(frozen=True, slots=True)
class SavedFolds:
    """Snapshots by time, oldest first: `times` gives (unix milliseconds, path) of each."""

    times: Callable[[], Sequence[tuple[int, str]]]

    def load(self, text: str, until_ms: int, settings: BaselineSettings) -> Fold | None:
        """The fold of an expression as it was last saved at or before a time; None: nowhere."""
        before = [path for time_ms, path in self.times() if time_ms <= until_ms]
        for path in reversed(before[-MOST_TRIED:]):
            try:
                found = decode(Path(path).read_bytes(), text, settings)
            except (OSError, BadSnapshotError) as error:
                LOG.warning("%s: %s; an earlier one is taken", path, error)
                continue
            if found is not None and (found.folded_ms or 0) <= until_ms:
                return found
        return None
