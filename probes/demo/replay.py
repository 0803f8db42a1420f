"""The demo from the bundled recording: the same rules, the same words, at a higher speed."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.alert import AlertState
from engine.pipeline.replay import replay
from engine.promql.engine import evaluate
from engine.promql.value import Axis, Vector
from probes.demo.bundle import BUNDLED, open_bundle
from probes.demo.owner import scratch_folder
from probes.demo.signals import ending_signals
from probes.demo.story import RATE, RULE, Story, write_rules
from rules.errors import StallwatchError
from rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.alerts.alert import Alert
    from probes.demo.bundle import Bundle
    from probes.demo.screen import Screen
    from rules.model import RuleFile

STEP_MS = 1_000


def play(
    screen: Screen,
    speed: float,
    folder: Path = BUNDLED,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Replay a recorded demo, `speed` times as fast as it happened; 0: without pauses.

    Raises StallwatchError when the rules as shipped find nothing in it.
    """
    bundle = open_bundle(folder)
    with ending_signals(), scratch_folder() as scratch:
        files = write_rules(scratch / "rules")
        _Scene(Story(screen, bundle.facts.task_id), bundle, files, speed, sleep).play()


def introduction(folder: Path = BUNDLED) -> str:
    """When and where the recording was made."""
    bundle = open_bundle(folder)
    at = datetime.fromtimestamp(bundle.data.start_ms // 1000, tz=timezone.utc)
    return (
        f"replaying a recording of this demo, made on {at:%Y-%m-%d} on kernel {bundle.facts.kernel}"
    )


@dataclass(slots=True)
class _Scene:
    story: Story
    bundle: Bundle
    files: tuple[RuleFile, ...]
    speed: float
    sleep: Callable[[float], None]
    _now_ms: int = 0

    def play(self) -> None:
        """Clean, lossy, healed, at the times of the recording."""
        facts, data = self.bundle.facts, self.bundle.data
        resolved = self._alert(data.end_ms)
        if resolved.fired_at_ms is None or resolved.resolved_at_ms is None:
            raise StallwatchError(f"stallwatch demo: {RULE} does not resolve in the recording")
        # As it was when it fired: value and evidence have grown since.
        firing = self._alert(resolved.fired_at_ms)
        self._now_ms = data.start_ms
        self.story.rules(self._now_ms)
        self._until(facts.loss_began_ms)
        self.story.clean(
            self._now_ms, self._retransmits(self._now_ms), facts.clean_steps_per_second
        )
        self.story.loss(facts.loss_began_ms)
        self._until(resolved.active_at_ms)
        self.story.pending(resolved)
        self._until(resolved.fired_at_ms, resolved, AlertState.PENDING)
        self.story.firing(firing)
        self._until(facts.loss_ended_ms, firing, AlertState.FIRING)
        self.story.healed(facts.loss_ended_ms, facts.lossy_steps_per_second)
        self._until(resolved.resolved_at_ms, firing, AlertState.FIRING)
        self.story.resolved(resolved)

    def _alert(self, end_ms: int) -> Alert:
        """The alert of the story as it stands at a time."""
        found = [
            alert
            for alert in replay(self.files, self.bundle.data, end_ms=end_ms).alerts
            if alert.labels.get("alertname") == RULE
            and alert.labels.get("task_id") == self.story.task_id
        ]
        if not found:
            raise StallwatchError(
                f"stallwatch demo: {RULE} does not fire in the recording\n"
                "    hint: the rules have changed; 'stallwatch demo' as root shows it live"
            )
        return found[0]

    def _until(
        self, time_ms: int, alert: Alert | None = None, state: AlertState = AlertState.PENDING
    ) -> None:
        """Let time pass, with an alert in a state or without."""
        while self._now_ms + STEP_MS <= time_ms:
            self._now_ms += STEP_MS
            if self.story.screen.moving:
                active = alert and dataclasses.replace(
                    alert, state=state, last_evaluation_ms=self._now_ms
                )
                self.story.status(self._retransmits(self._now_ms), None, active)
            self.sleep(STEP_MS / 1000 / self.speed if self.speed else 0)
        self._now_ms = max(self._now_ms, time_ms)

    def _retransmits(self, time_ms: int) -> float:
        query = parse(RATE.format(task_id=self.story.task_id))
        value = evaluate(query, Axis.instant(time_ms), self.bundle.data).value
        rates = value.values[value.present] if isinstance(value, Vector) else np.empty(0)
        return float(rates[0]) if rates.size else 0.0
