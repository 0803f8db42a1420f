"""Alerts that fire and resolve again and again: told once, and once more when they are calm. Pure.

While an alert flaps it stands for one that fires, whatever it does, so that no change of it is
news. Source of the idea: flap detection in Nagios, which counts changes of state over a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.alert import AlertState
from engine.alerts.fingerprint import fingerprint
from notifiers.dispatch.group import is_firing
from notifiers.notification import fired_at_ms
from rules.durations import format_duration
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.alerts.alert import Alert

# Where messages say it; never part of what an alert is known by.
ANNOTATION = "flapping"
_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1000, 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class FlapRule:
    """An alert flaps from more than `changes` changes within `window_ms` on, firing or resolving,
    until it has not changed for `calm_ms`.
    """  # noqa: D205 - one sentence

    changes: int = 6
    window_ms: int = 1_800_000
    calm_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Course:
    """How an alert has changed. Times are unix milliseconds.

    `fires`, `at_ms`: what it changed to last, and when. `times`: its changes within the window,
    the newest last. While it `flaps`, `total` changes have been made since `since_ms`.
    """

    fires: bool
    at_ms: int
    times: tuple[int, ...] = ()
    flaps: bool = False
    total: int = 0
    since_ms: int = 0

    def words(self) -> str:
        """`changed 14 times in 30m`."""
        return f"changed {self.total} times in {_rough(self.at_ms - self.since_ms)}"


class Flaps:
    """The courses of all alerts, by fingerprint. `changed`: those written since `saved`."""

    def __init__(self, rule: FlapRule) -> None:
        self._rule = rule
        self.changed: set[str] = set()
        self._courses: dict[str, Course] = {}
        # As the rules gave them, of those that flap.
        self._alerts: dict[str, Alert] = {}

    def __len__(self) -> int:
        """How many flap."""
        return len(self._alerts)

    def course(self, identity: str) -> Course | None:
        """None of an alert that has not changed for long."""
        return self._courses.get(identity)

    def alerts(self) -> list[Alert]:
        """Those that flap, as the rules gave them."""
        return list(self._alerts.values())

    def all_changed(self) -> None:
        """Nothing of it is on the disk any more."""
        self.changed.update(self._courses)

    def restore(self, courses: Mapping[str, Course]) -> None:
        """What an earlier process knew."""
        self._courses.update(courses)

    def take(self, identity: str, alert: Alert) -> tuple[Alert, bool]:
        """(the alert as it is to be told, whether it has begun to flap).

        The same state of an alert may come again: after a restart all do.
        """
        before = self._courses.get(identity)
        after = self._changed(before, alert)
        if after != before:
            self._courses[identity] = after
            self.changed.add(identity)
        if not after.flaps:
            return alert, False
        self._alerts[identity] = alert
        now = "firing" if after.fires else "resolved"
        shown = _saying(alert, f"{after.words()}, {now} now")
        begins = before is None or not before.flaps
        return replace(shown, state=AlertState.FIRING, resolved_at_ms=None), begins

    def through(self, alerts: Iterable[Alert]) -> tuple[list[Alert], list[str]]:
        """(alerts as they are to be told, those of them that have begun to flap)."""
        shown, begun = [], []
        for alert in alerts:
            identity = fingerprint(alert.labels)
            one, begins = self.take(identity, alert)
            shown.append(one)
            if begins:
                begun.append(identity)
        return shown, begun

    def calmed(self, now_ms: int) -> tuple[list[Alert], list[str]]:
        """(those that flap no more, as they are now, their fingerprints)."""
        shown, calm = [], []
        for identity, alert in list(self._alerts.items()):
            course = self._courses[identity]
            # A last change in the future: the clock was set back.
            if course.at_ms <= now_ms < course.at_ms + self._rule.calm_ms:
                continue
            self._courses[identity] = Course(course.fires, course.at_ms)
            self.changed.add(identity)
            del self._alerts[identity]
            words = f"{course.words()}, calm for {_rough(self._rule.calm_ms)}"
            shown.append(_saying(alert, words))
            calm.append(identity)
        return shown, calm

    def sweep(self, now_ms: int) -> None:
        """Forget alerts that have not changed for as long as the window."""
        over_ms = now_ms - self._rule.window_ms
        gone = [own for own, one in self._courses.items() if not one.flaps and one.at_ms <= over_ms]
        for identity in gone:
            del self._courses[identity]
        self.changed.update(gone)

    def saved(self) -> None:
        """What changed is on the disk."""
        self.changed.clear()

    def _changed(self, before: Course | None, alert: Alert) -> Course:
        fires, at_ms = is_firing(alert), _changed_at_ms(alert)
        if before is not None and (before.fires, before.at_ms) == (fires, at_ms):
            return before
        # In the same state as before, but since another time: it has changed there and back.
        new = 2 if before is not None and before.fires == fires else 1
        most, over_ms = self._rule.changes + 1, at_ms - self._rule.window_ms
        times = (*(before.times if before else ()), *[at_ms] * new)
        times = tuple(each for each in times if over_ms < each <= at_ms)[-most:]
        if before is not None and before.flaps:
            return Course(
                fires, at_ms, times, flaps=True, total=before.total + new, since_ms=before.since_ms
            )
        # Of one that has been told as resolved, or was told of to nobody, there is no news yet.
        shown_firing = fires or (before is not None and before.fires)
        if len(times) < most or not shown_firing:
            return Course(fires, at_ms, times)
        return Course(fires, at_ms, times, flaps=True, total=len(times), since_ms=times[0])


def _changed_at_ms(alert: Alert) -> int:
    over_ms = alert.resolved_at_ms
    return fired_at_ms(alert) if is_firing(alert) or over_ms is None else over_ms


def _saying(alert: Alert, words: str) -> Alert:
    return replace(alert, annotations={**alert.annotations, ANNOTATION: words})


def _rough(length_ms: int) -> str:
    """A duration to the minute, or to the second below an hour."""
    unit = _MINUTE_MS if length_ms >= _HOUR_MS else _SECOND_MS
    return format_duration(round(length_ms / unit) * unit)
