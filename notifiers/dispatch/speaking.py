"""What a group has to say to each of its integrations when its time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.fingerprint import fingerprint
from engine.alerts.machine import ALERT_NAME
from notifiers.dispatch.deduplication import decide, remembered_for_ms
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.message import message_of
from notifiers.notification import fired_at_ms
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.alerts.alert import Alert
    from notifiers.acknowledgements import Acknowledged
    from notifiers.dispatch.deduplication import News
    from notifiers.dispatch.group import Group
    from notifiers.dispatch.limiting import Limiter
    from notifiers.dispatch.log import LogEntry, NotificationLog
    from notifiers.dispatch.message import Addressee, Message
    from notifiers.dispatch.muting import Muting
    from notifiers.inhibition import Inhibitor


@dataclass(frozen=True, slots=True)
class _Moment:
    """A group's tick. `alerts`: what nothing keeps back. `seen`: somebody has seen what fires."""

    group: Group
    alerts: Mapping[str, Alert]
    seen: bool
    now_ms: int

    def news(self, to: Addressee, entry: LogEntry | None) -> News | None:
        """What an integration has not been told, by this entry of the log."""
        if not self.alerts:
            return None
        firing = {key for key, alert in self.alerts.items() if is_firing(alert)}
        return decide(
            entry,
            firing,
            self.alerts.keys() - firing,
            now_ms=self.now_ms,
            repeat_ms=self.group.route.repeat_interval_ms,
            send_resolved=to.send_resolved,
            seen=self.seen,
        )


@dataclass(frozen=True, slots=True)
class Speaker:
    """Makes messages, writes them into the log, and lets those wait whose limit is reached."""

    addressees: Mapping[str, Sequence[Addressee]]
    muting: Muting
    log: NotificationLog
    limiter: Limiter

    def speak(self, group: Group, seen: Acknowledged, now_ms: int) -> Iterator[Message]:
        """The messages of a group; one that has to wait has it all to say at a later tick."""
        alerts = self.muting.heard(group.alerts, group.route, now_ms)
        moment = _Moment(group, alerts, _are_seen(alerts, seen), now_ms)
        # Muted ones, too: they leave the group without a word if nobody is owed their end.
        over = {key for key, alert in group.alerts.items() if not is_firing(alert)}
        for to in self.addressees.get(group.route.receiver, ()):
            self.log.end(group.key, to.key, over)
            entry = self.log.entry(group.key, to.key)
            news = moment.news(to, entry)
            if self._has_to_wait(moment, to, news) or news is None:
                continue
            self.log.write(group.key, to.key, _whose(news.entry, group))
            if news.silent:
                continue
            message = named(
                message_of(group, to, news, alerts, entry), self.log, self.muting.inhibitor
            )
            told = [alerts[key] for key in news.firing]
            remembered_ms = remembered_for_ms(group.route.repeat_interval_ms)
            if _is_doubtful(self.log, entry, told, remembered_ms):
                message = replace(message, may_repeat=True)
            if to.limit is not None:
                message = self.limiter.sent(to.key, to.limit, message, now_ms)
            yield message

    def _has_to_wait(self, moment: _Moment, to: Addressee, news: News | None) -> bool:
        if to.limit is None:
            return False
        group, alerts, now_ms = moment.group, moment.alerts, moment.now_ms
        known = self.limiter.expected(to.key, group.key)
        speaks = news is not None and not news.silent
        budget = self.limiter.budget(to.key)
        waits = speaks and not budget.allows(group.key, to.limit, now_ms)
        if waits or (known is not None and not speaks):
            # Also the end of what nobody was told of would have been a message.
            entry = known or self.log.entry(group.key, to.key)
            unsaid = moment.news(to, entry)
            if unsaid is not None:
                names = {
                    alerts[key].labels.get(ALERT_NAME) for key in unsaid.firing | unsaid.resolved
                }
                self.limiter.hold(to.key, group.key, unsaid, names, now_ms)
        if not waits and not speaks:
            self.limiter.release(to.key, group.key)
        return waits


def named(message: Message, log: NotificationLog, inhibitor: Inhibitor) -> Message:
    """With the labels that are sent, where they are others, and what each alert keeps back."""
    found = {
        identity: log.sent_as[identity]
        for identity in (fingerprint(alert.labels) for alert in message.alerts)
        if identity in log.sent_as
    }
    message = replace(message, sent_as=found)
    facing = [inhibitor.facing(message.labels_of(one)) for one in message.alerts]
    if not any(facing):
        return message
    pairs = zip(message.alerts, facing, strict=True)
    return replace(message, alerts=tuple(replace(one, inhibited=own) for one, own in pairs))


def _is_doubtful(
    log: NotificationLog, entry: LogEntry | None, firing: Sequence[Alert], remembered_ms: int
) -> bool:
    """Whether some of what fires was told, maybe, before the log lost what was told.

    Where the alerts' own state is lost with it they begin anew, and what they were before shows in
    nothing. Then all is doubtful that begins while an entry that was lost would have been known.
    """
    if entry is not None and entry.sent_ms > log.doubted_ms:
        return False
    known_until_ms = log.forgotten_ms + remembered_ms if log.forgotten_ms else 0
    return any(
        fired_at_ms(one) <= log.doubted_ms or one.active_at_ms <= known_until_ms for one in firing
    )


def _are_seen(alerts: Mapping[str, Alert], seen: Acknowledged) -> bool:
    """Whether somebody has seen all that fires."""
    firing = [alert for alert in alerts.values() if is_firing(alert)]
    return bool(firing) and all(seen.of(alert) is not None for alert in firing)


def _whose(entry: LogEntry, group: Group) -> LogEntry:
    labels = tuple(sorted(group.labels.items()))
    return replace(entry, group_labels=labels, receiver=group.route.receiver)
