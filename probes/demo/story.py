"""The story that the demo tells, the same words live and from the recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.alerts.wording import inert
from probes.demo.screen import Screen, alert_lines
from rules.loader import load_paths
from rules.packs import shipped
from rules.scaling import divide_durations

if TYPE_CHECKING:
    from pathlib import Path

    from engine.alerts.alert import Alert
    from rules.model import RuleFile

RULE = "TaskRetransmits"
DIVISOR = 10
LOSS_PER_MILLE = 20
# What the status line shows; short, so that it moves with what happens.
RATE = 'sum(rate(tcp_retrans_total{{task_id="{task_id}"}}[5s]))'


def write_rules(folder: Path) -> tuple[RuleFile, ...]:
    """The shipped rules with every duration divided by ten, written into a folder and loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for pack in shipped():
        path = folder / pack.name
        path.write_text(divide_durations(pack.read_text(encoding="utf-8"), DIVISOR), "utf-8")
        paths.append(path)
    return load_paths(paths)


@dataclass(slots=True)
class Story:
    """Tells what happens to task `task_id`; times are unix milliseconds."""

    screen: Screen
    task_id: str
    loss_began_ms: int = 0
    fired_at_ms: int = 0

    def rules(self, time_ms: int) -> None:
        """Which rules watch."""
        self.screen.say(
            time_ms,
            "rules: the shipped rules, every duration divided by ten",
            f"(5m becomes 30s); flush and evaluation each 1 s. The one to watch is {RULE}.",
        )

    def clean(self, time_ms: int, retransmits: float, steps: float) -> None:
        """The job has run for a while, at so many steps a second."""
        self.screen.say(
            time_ms, f"clean: {retransmits:.1f} retransmits/s, {steps:.1f} steps/s, no alert"
        )

    def loss(self, time_ms: int) -> None:
        """The network begins to lose packets."""
        self.loss_began_ms = time_ms
        self.screen.say(
            time_ms,
            f"loss: from now on each rank loses {LOSS_PER_MILLE / 10:g} % of the TCP packets sent "
            "to it",
            "No process fails and no log says anything; the steps just get slower.",
        )

    def pending(self, alert: Alert) -> None:
        """The condition holds for the first time."""
        self.screen.say(
            alert.active_at_ms,
            f"pending: {RULE} holds for task {self.task_id}; it fires if that lasts for 30s",
        )

    def firing(self, alert: Alert) -> None:
        """The alert, as a receiver is told."""
        self.fired_at_ms = alert.fired_at_ms or 0
        after = (self.fired_at_ms - self.loss_began_ms) / 1000
        self.screen.say(
            self.fired_at_ms,
            f"FIRING: {RULE}, {after:.0f} s after the loss began",
            "",
            *alert_lines(alert),
        )

    def healed(self, time_ms: int, steps: float) -> None:
        """The loss ends; it made so many steps a second of them."""
        self.screen.say(
            time_ms,
            f"healed: nothing is lost any more; the job was down to {steps:.1f} steps/s",
            "The rule looks at the last 30s, so it takes about that long to be quiet.",
        )

    def resolved(self, alert: Alert) -> None:
        """The alert is over."""
        at = alert.resolved_at_ms or 0
        lasted = (at - self.fired_at_ms) / 1000
        self.screen.say(at, f"RESOLVED: {RULE}, {lasted:.0f} s after it fired")

    def other(self, alert: Alert) -> None:
        """An alert about something else on this machine: one line."""
        summary = inert(alert.annotations.get("summary", ""))
        name = alert.labels.get("alertname")
        when = alert.resolved_at_ms or alert.fired_at_ms or alert.active_at_ms
        self.screen.say(when, f"beside the demo: {alert.state.value} {inert(name)}: {summary}")

    def status(self, retransmits: float, steps: float | None, alert: Alert | None) -> None:
        """The moving line."""
        parts = [f"{retransmits:.1f} retransmits/s"]
        if steps is not None:
            parts.insert(0, f"{steps:.1f} steps/s")
        if alert is not None:
            since = max(0, (alert.last_evaluation_ms or 0) - alert.active_at_ms) // 1000
            parts.append(f"{alert.state.value}, active for {since} s")
        self.screen.status(", ".join(parts))
