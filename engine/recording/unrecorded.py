"""Stands for a recording where none can be kept: the agent runs on, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.flush import Flush
    from engine.labels import Labels
    from engine.recording.slots import Run
    from engine.series import Float64Array


class Unrecorded:
    """Takes what a `Recorder` takes and keeps none of it. `failing` says why."""

    def __init__(self, failing: str) -> None:
        self.failing: str | None = failing
        self.write_failures_total = 0

    def write(self, flush: Flush) -> bool:  # noqa: ARG002 - the recorder's signature
        """Not written."""
        return self._refuse()

    def write_samples(
        self,
        timestamp_ms: int,  # noqa: ARG002 - the recorder's signature
        labels: Sequence[Labels],  # noqa: ARG002
        values: Float64Array,  # noqa: ARG002
    ) -> bool:
        """Not written."""
        return self._refuse()

    def log_evaluated(self, file: str, group: str, timestamp_ms: int) -> bool:  # noqa: ARG002
        """Not logged."""
        return self._refuse()

    def log_skipped(
        self,
        file: str,  # noqa: ARG002
        group: str,  # noqa: ARG002
        run: Run,  # noqa: ARG002
        timestamp_ms: int,  # noqa: ARG002
        reason: str,  # noqa: ARG002
    ) -> bool:
        """Not logged."""
        return self._refuse()

    def log_restart(self, timestamp_ms: int) -> bool:  # noqa: ARG002
        """Not logged."""
        return self._refuse()

    def log_rules(self, rules_hash: str, timestamp_ms: int) -> bool:  # noqa: ARG002
        """Not logged."""
        return self._refuse()

    def log_interval(self, file: str, group: str, interval_ms: int) -> bool:  # noqa: ARG002
        """Not logged."""
        return self._refuse()

    def log_baselines(self, settings: Mapping[str, int], timestamp_ms: int) -> bool:  # noqa: ARG002
        """Not logged."""
        return self._refuse()

    def write_snapshot(self, timestamp_ms: int, content: bytes) -> bool:  # noqa: ARG002
        """Not kept."""
        return self._refuse()

    def snapshots(self) -> tuple[tuple[int, str], ...]:
        """None."""
        return ()

    def write_log(self, timestamp_ms: int, line: str) -> bool:  # noqa: ARG002
        """Not written."""
        return False

    def close(self) -> None:
        """Nothing is open."""

    def _refuse(self) -> bool:
        self.write_failures_total += 1
        return False
