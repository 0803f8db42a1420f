"""The snapshots in a recording's folder, as folds go on from them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from engine.baselines.snapshot import BadSnapshotError, decode
from rules.slotted import dataclass, field

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
    _told: set[str] = field(default_factory=set)

    def load(self, text: str, until_ms: int, settings: BaselineSettings) -> Fold | None:
        """The fold of an expression as it was last saved at or before a time; None: nowhere."""
        before = [path for time_ms, path in self.times() if time_ms <= until_ms]
        damaged: list[str] = []
        found: Fold | None = None
        for path in reversed(before[-MOST_TRIED:]):
            try:
                found = decode(Path(path).read_bytes(), text, settings)
            except (OSError, BadSnapshotError) as error:
                damaged.append(f"{path}: {error}")
                continue
            if found is not None and (found.folded_ms or 0) <= until_ms:
                break
            found = None
        self._tell(damaged, found)
        return found

    def _tell(self, damaged: Sequence[str], found: Fold | None) -> None:
        """Each expression, and whoever looks at one, reads a snapshot anew: say it once."""
        what = "an earlier one is taken" if found else "there is no earlier one to go on from"
        for one in damaged:
            if one not in self._told:
                self._told.add(one)
                LOG.warning("%s; %s", one, what)
