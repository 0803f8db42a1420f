"""When to give the next sign of life."""

from __future__ import annotations

# So many evaluations in a row may be late or left out before the agent counts as standing still.
MISSED_EVALUATIONS = 3
# A beat that was not taken is tried again in this share of the interval, so that one lost request
# does not look like a dead agent to a monitor that allows for two intervals.
RETRY_SHARE = 4
SHORTEST_RETRY_MS = 1_000


class Pulse:
    """Beats every `interval_ms` while rules are evaluated. Pure: times come from outside.

    `evaluation_interval_ms` is the longest time that may lie between two evaluations of an agent
    that is well. The first beat is due as soon as there was an evaluation. Not thread-safe.
    """

    def __init__(self, interval_ms: int, evaluation_interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._fresh_ms = MISSED_EVALUATIONS * evaluation_interval_ms
        self._next_ms: int | None = None

    def due(self, now_ms: int, evaluated_ms: int | None) -> bool:
        """Whether to beat now. `evaluated_ms`: when rules were last evaluated, None for never."""
        if evaluated_ms is None or now_ms - evaluated_ms > self._fresh_ms:
            return False
        return self._waits_ms(now_ms) == 0

    def beat(self, now_ms: int, *, taken: bool) -> None:
        """A beat was sent just now, and the other side took it or not."""
        wait_ms = self._interval_ms
        if not taken:
            wait_ms = min(wait_ms, max(SHORTEST_RETRY_MS, wait_ms // RETRY_SHARE))
        self._next_ms = now_ms + wait_ms

    def wait_ms(self, now_ms: int, evaluated_ms: int | None) -> int:
        """For how long there is surely nothing to do, at least one millisecond.

        While evaluation stands still, a beat may be due as soon as it goes on.
        """
        if self.due(now_ms, evaluated_ms):
            return 1
        return self._waits_ms(now_ms) or min(self._interval_ms, SHORTEST_RETRY_MS)

    def _waits_ms(self, now_ms: int) -> int:
        if self._next_ms is None:
            return 0
        left_ms = self._next_ms - now_ms
        # Longer than a whole interval: the clock was set back since the last beat.
        return left_ms if 0 < left_ms <= self._interval_ms else 0
