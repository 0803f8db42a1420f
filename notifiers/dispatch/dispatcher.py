"""The dispatcher: alerts go in, and when a group's time has come its messages come out. Pure.

Live delivery and simulation drive the same one, by the clock or without one. Source of the rules:
dispatch/dispatch.go and notify/notify.go of Alertmanager.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from engine.alerts.alert import Suppression
from engine.alerts.fingerprint import fingerprint
from notifiers.acknowledgements import NOTHING
from notifiers.dispatch.group import Group, Timer, group_names, is_firing
from notifiers.dispatch.limiting import Limiter
from notifiers.dispatch.message import Message, digest
from notifiers.dispatch.speaking import Speaker, named
from notifiers.dispatch.twins import Twins
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.labels import Labels
    from notifiers.dispatch.flapping import Flaps
    from notifiers.dispatch.log import Key, NotificationLog
    from notifiers.dispatch.message import Addressee
    from notifiers.dispatch.muting import Muting
    from notifiers.routing.tree import Route

# Alertmanager looks for empty groups as often; an alert that comes sooner meets the old timer.
EMPTY_GROUP_MS = 30_000
# How often what no group needs any more is looked for, as Alertmanager does.
SWEEP_MS = 900_000


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush did.

    `spoke`: groups that spoke for the first time or had news; of all others the timer alone moved,
    which is nothing to remember. `gone`: ids of groups that have been empty. `settled`:
    fingerprints of resolved alerts that are in no group any more.
    """

    messages: tuple[Message, ...]
    spoke: tuple[Group, ...]
    gone: tuple[str, ...]
    settled: tuple[str, ...]


class Dispatcher:
    """See the module. Times are unix milliseconds. One thread uses it.

    `addressees`: by receiver. `timers`: of groups that an earlier process had, by their id.
    `keeps_owed` False: a resolution that is muted when its group speaks is dropped, as
    Alertmanager does. `flaps`: None tells every change of an alert.
    """

    def __init__(
        self,
        root: Route,
        addressees: Mapping[str, Sequence[Addressee]],
        muting: Muting,
        log: NotificationLog,
        timers: Mapping[str, Timer] | None = None,
        *,
        keeps_owed: bool = True,
        flaps: Flaps | None = None,
    ) -> None:
        self._root = root
        self._addressees = addressees
        self._muting = muting
        self._log = log
        self._timers = dict(timers or {})
        self._keeps_owed = keeps_owed
        self._twins = Twins(muting.labelled, log)
        self.limiter = Limiter(addressees)
        self._speaker = Speaker(addressees, muting, log, self.limiter)
        self.flaps = flaps
        # What somebody has seen; whoever drives the dispatcher keeps it up to date.
        self.acknowledged = NOTHING
        self._groups: dict[str, Group] = {}
        # By fingerprint, how many groups hold the alert.
        self._held: dict[str, int] = {}
        self._known = {to.key for each in addressees.values() for to in each}
        # Resolutions for those to whom no route leads any more.
        self._strays: list[Message] = []
        # Resolved before anybody heard of them, since the last flush.
        self._unheard: list[str] = []
        # (next flush, id); an entry that is not its group's timer is passed over.
        self._due: list[tuple[int, str]] = []
        self._newest_ms = self._swept_ms = 0

    def take(self, alerts: Iterable[Alert], now_ms: int) -> list[Group]:
        """Alerts that fire or are resolved; the groups that are new or whose timers moved."""
        anew: list[str] = []
        shown = list(alerts)
        if self.flaps is not None:
            shown, anew = self.flaps.through(shown)
        return self._take(shown, anew, now_ms)

    def _take(self, alerts: Iterable[Alert], anew: Iterable[str], now_ms: int) -> list[Group]:
        """Alerts as they are to be told; those in `anew` are news also to who was told of them."""
        touched: dict[str, Group] = {}
        taken = self._twins.take(alerts)
        for old, new in taken.handed:
            self._hand_over(old, new)
        self._unheard += taken.over
        for alert, labels in taken.alerts:
            identity = fingerprint(alert.labels)
            if labels != alert.labels:
                self._log.keep_labels(identity, labels)
            self._muting.inhibitor.take(labels, fired_at_ms(alert), fires=is_firing(alert))
            groups = list(self._insert(identity, alert, labels, now_ms))
            touched |= {group.id: group for group in groups}
            strays = self._astray(identity, groups)
            if is_firing(alert):
                self._adopt(identity, groups, strays)
            else:
                self._strays += self._tell_strays(identity, alert, strays, now_ms)
            if identity not in self._held:
                self._unheard.append(identity)
        for identity in anew:
            self._log.tell_anew(identity)
        return list(touched.values())

    def next_ms(self) -> int | None:
        """When the next group is due; None: there is none."""
        while self._due:
            due_ms, own = self._due[0]
            group = self._groups.get(own)
            if group is not None and group.timer.next_flush_ms == due_ms:
                return due_ms
            heapq.heappop(self._due)
        return None

    def flush(self, now_ms: int) -> Flushed:
        """Let every group speak whose time has come."""
        if now_ms < self._newest_ms:
            self._clock_set_back(now_ms)
        self._newest_ms = now_ms
        spoke: list[Group] = []
        if self.flaps is not None:
            spoke = self._take(*self.flaps.calmed(now_ms), now_ms)
        messages, self._strays = self._strays, []
        gone = self._sweep(now_ms)
        settled, self._unheard = self._unheard, []
        while (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            group = self._groups[heapq.heappop(self._due)[1]]
            if _is_abandoned(group, now_ms):
                del self._groups[group.id]
                self._log.forget(group.key, now_ms)
                gone.append(group.id)
                continue
            first = not group.timer.flushed
            group.flushed(now_ms)
            heapq.heappush(self._due, (group.timer.next_flush_ms, group.id))
            news = list(self._speaker.speak(group, self.acknowledged, now_ms))
            messages += news
            settled += self._settle(group, now_ms)
            if first or news:
                spoke.append(group)
        for identity in settled:
            self._twins.forget(identity)
            self._log.settle(identity)
        return Flushed(tuple(messages), tuple(spoke), tuple(gone), tuple(settled))

    def _clock_set_back(self, now_ms: int) -> None:
        """No group shall wait for the clock to come round again."""
        self._swept_ms = min(self._swept_ms, now_ms)
        for group in self._groups.values():
            route, timer = group.route, group.timer
            wait_ms = route.group_interval_ms if timer.flushed else route.group_wait_ms
            if timer.next_flush_ms > now_ms + wait_ms:
                group.timer = Timer(now_ms + wait_ms, flushed=timer.flushed)
                heapq.heappush(self._due, (group.timer.next_flush_ms, group.id))
            if group.empty_since_ms is not None:
                group.empty_since_ms = min(group.empty_since_ms, now_ms)

    def _sweep(self, now_ms: int) -> list[str]:
        """Timers of an earlier process whose groups did not come back, and what the log kept."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return []
        self._swept_ms = now_ms
        alive = {group.key for group in self._groups.values()}
        self._log.sweep(alive, now_ms)
        self.limiter.sweep(alive)
        if self.flaps is not None:
            self.flaps.sweep(now_ms)
        over_ms = now_ms - EMPTY_GROUP_MS
        gone = [own for own, timer in self._timers.items() if timer.next_flush_ms < over_ms]
        for own in gone:
            del self._timers[own]
        return gone

    def sent(self, labels: Labels) -> Labels | None:
        """The labels with which an alert is sent; None: it is dropped."""
        return self._muting.labelled(labels)

    @property
    def changed(self) -> bool:
        """Whether there is something to save, the log and what `flush` gave apart."""
        return bool(self.limiter.changed or (self.flaps is not None and self.flaps.changed))

    def saved(self) -> None:
        """It is on the disk."""
        self.limiter.saved()
        if self.flaps is not None:
            self.flaps.saved()

    def groups(self) -> Iterator[Group]:
        """All that have alerts."""
        return (group for group in self._groups.values() if group.alerts)

    def kept_back(self, labels: Labels, now_ms: int) -> Suppression:
        """What inhibits or mutes an alert with these labels now; silences are not looked at."""
        quiet = (self._muting.of_route(route, now_ms) for route in self._root.match(labels))
        muted = dict.fromkeys(name for each in quiet if each is not None for name in each.by)
        inhibitor = self._muting.inhibitor
        by = inhibitor.inhibited_by(labels)
        return Suppression(
            inhibited_by=by,
            muted_by=tuple(muted),
            inhibitors=inhibitor.inhibitors(labels) if by else (),
            inhibits=inhibitor.facing(labels),
        )

    def _insert(self, identity: str, alert: Alert, sent: Labels, now_ms: int) -> Iterator[Group]:
        for route in self._root.match(sent):
            labels = route.group_labels(sent)
            own, key = group_names(route, labels)
            group = self._groups.get(own)
            if group is None:
                heard = self._is_owed(key, route, identity) or self.limiter.holds(key)
                if not is_firing(alert) and not heard:
                    self._end(key, route, identity)
                    continue  # nobody here heard that it fired, or would have without a limit
                group = self._groups[own] = self._begin(own, key, route, labels, now_ms)
            before = group.timer
            if identity not in group.alerts:
                self._held[identity] = self._held.get(identity, 0) + 1
            group.insert(identity, alert, now_ms)
            if group.timer != before:
                heapq.heappush(self._due, (group.timer.next_flush_ms, own))
            yield group

    def _hand_over(self, old: str, new: str) -> None:
        """Two alerts are sent as one: what was done of one was done of the other."""
        self._log.hand_over(old, new)
        self._held.pop(old, None)
        for group in self._groups.values():
            if group.alerts.pop(old, None) is not None:
                self._end(group.key, group.route, old)

    def _end(self, key: str, route: Route, identity: str) -> None:
        """An alert is in a group no more; to whom its firing was refused, the next one is news."""
        for to in self._addressees.get(route.receiver, ()):
            self._log.end(key, to.key, {identity})

    def _led(self, groups: Iterable[Group]) -> list[Key]:
        """Which group each integration hears of, of these."""
        return [
            (group.key, to.key)
            for group in groups
            for to in self._addressees.get(group.route.receiver, ())
        ]

    def _astray(self, identity: str, groups: Sequence[Group]) -> list[Key]:
        """Who was told of an alert by a group that no route leads it to any more."""
        owing = self._log.owing(identity)
        return [key for key in owing if key not in self._led(groups)] if owing else []

    def _adopt(self, identity: str, groups: Sequence[Group], strays: Iterable[Key]) -> None:
        """Routes or labels have changed: who hears by another group now was told all the same."""
        found = {integration: key for key, integration in self._led(groups)} if strays else {}
        for group_key, integration in strays:
            old = self._log.entry(group_key, integration)
            if old is None or integration not in found:
                continue
            own, left = frozenset({identity}), old.told - {identity}
            new = self._log.entry(found[integration], integration)
            new = new or replace(old, firing=frozenset(), told=frozenset())
            new = replace(new, firing=new.firing | own, told=new.told | own)
            self._log.write(found[integration], integration, new)
            old = replace(old, firing=old.firing - own, told=left)
            self._log.write(group_key, integration, old)

    def _tell_strays(
        self, identity: str, alert: Alert, strays: Iterable[Key], now_ms: int
    ) -> Iterator[Message]:
        """The end of an alert for those whom no route tells of it any more."""
        for group_key, integration in strays:
            entry = self._log.entry(group_key, integration)
            if entry is None:
                continue
            own = frozenset({identity})
            after = replace(entry, sent_ms=now_ms, firing=entry.firing - own, told=entry.told - own)
            self._log.write(group_key, integration, after)
            parts = (group_key, integration, identity, str(alert.resolved_at_ms))
            message = Message(
                digest(parts),
                entry.receiver,
                integration,
                group_key,
                dict(entry.group_labels),
                (alert,),
                "all alerts resolved",
                is_removed=integration not in self._known,
            )
            yield named(message, self._log, self._muting.inhibitor)

    def _begin(
        self, own: str, key: str, route: Route, labels: Mapping[str, str], now_ms: int
    ) -> Group:
        timer = self._timers.pop(own, None)
        longest_ms = max(route.group_wait_ms, route.group_interval_ms)
        if timer is None or timer.next_flush_ms > now_ms + longest_ms:
            # New; or the clock was set back, and nobody shall wait for it to come round again.
            timer = Timer(now_ms + route.group_wait_ms, flushed=timer is not None)
        heapq.heappush(self._due, (timer.next_flush_ms, own))
        return Group(own, key, route, labels, timer)

    def _settle(self, group: Group, now_ms: int) -> Iterator[str]:
        """Let go of resolved alerts that nobody is owed."""
        resolved = [key for key, alert in group.alerts.items() if not is_firing(alert)]
        for identity in resolved:
            keeps = self._keeps_owed or self.limiter.holds(group.key)
            if keeps and self._is_owed(group.key, group.route, identity):
                continue
            group.drop(identity, now_ms)
            self._held[identity] -= 1
            if not self._held[identity]:
                del self._held[identity]
                yield identity

    def _is_owed(self, key: str, route: Route, identity: str) -> bool:
        entries = (self._log.entry(key, to.key) for to in self._addressees.get(route.receiver, ()))
        return any(entry is not None and identity in entry.told for entry in entries)


def _is_abandoned(group: Group, now_ms: int) -> bool:
    since = group.empty_since_ms
    return not group.alerts and since is not None and now_ms - since >= EMPTY_GROUP_MS
