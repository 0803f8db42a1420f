"""The notification log: what each integration was last told of each group.

Sets of label hashes, not values (nflog/nflog.go in Alertmanager): a changed annotation is no news.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from engine.labels import Labels

Key: TypeAlias = "tuple[str, str]"
"""(group key, integration)."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The last message of a group to one integration, by fingerprints.

    `firing`: what it said is firing. `told`: whatever the integration was told of as firing and not
    as resolved since, in that message or before it: each is owed its resolution, also when it
    is muted now and `firing` no longer has it. From `expires_ms` on the entry counts as
    absent, except for what is owed. `group_labels` and `receiver` serve where no route leads to the
    group any more. `refused_ms`: when the message was given up; 0: it was not. What was refused
    is in `firing` and not in `told`, until it ends.
    """

    sent_ms: int
    expires_ms: int
    firing: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    group_labels: tuple[tuple[str, str], ...] = ()
    receiver: str = ""
    refused_ms: int = 0


class NotificationLog:
    """Entries by group key and integration, in memory. `changed`: keys written since `saved`.

    `sent_as`: by fingerprint, the labels with which an alert is sent, where they are not its own.
    `newly_sent_as`: those of them that are new since `saved`. `doubted_ms`: when entries were lost;
    `forgotten_ms`: when they were lost together with what was known of the alerts; 0: never.
    """

    def __init__(self) -> None:
        self.changed: set[Key] = set()
        self.doubted_ms = self.forgotten_ms = 0
        self.sent_as: dict[str, Labels] = {}
        self.newly_sent_as: set[str] = set()
        self._entries: dict[Key, LogEntry] = {}
        self._integrations: dict[str, set[str]] = {}
        self._owing: dict[str, set[Key]] = {}

    def entry(self, group_key: str, integration: str) -> LogEntry | None:
        """The newest, None before the first message."""
        return self._entries.get((group_key, integration))

    def write(self, group_key: str, integration: str, entry: LogEntry) -> None:
        """Take the place of the one before."""
        key = group_key, integration
        self._replace(key, entry)
        self._integrations.setdefault(group_key, set()).add(integration)

    def owing(self, identity: str) -> list[Key]:
        """Who was told that an alert fires, and not of its end."""
        return sorted(self._owing.get(identity, ()))

    def owed(self) -> set[str]:
        """Each alert that somebody was told of, and not of its end."""
        return set(self._owing)

    def keep_labels(self, identity: str, sent: Labels) -> None:
        """From now on an alert is sent with these, until it is settled."""
        if self.sent_as.get(identity) != sent:
            self.sent_as[identity] = sent
            self.newly_sent_as.add(identity)

    def settle(self, identity: str) -> None:
        """An alert has ended, and whoever had to hear of it has."""
        self.sent_as.pop(identity, None)
        self.newly_sent_as.discard(identity)

    def hand_over(self, old: str, new: str) -> None:
        """Whoever was told of one alert was told of another: they are sent as one."""
        for key in self.owing(old):
            entry = self._entries[key]
            firing = entry.firing - {old} | ({new} if old in entry.firing else set())
            self.write(*key, replace(entry, firing=firing, told=entry.told - {old} | {new}))

    def tell_anew(self, identity: str) -> None:
        """That an alert fires is news again to whoever was told; its end is owed as before."""
        for key in self.owing(identity):
            entry = self._entries[key]
            self._replace(key, replace(entry, firing=entry.firing - {identity}))

    def end(self, group_key: str, integration: str, over: AbstractSet[str]) -> None:
        """What has ended and was told to nobody, as it was refused: its next firing is news."""
        entry = self.entry(group_key, integration)
        # Without a refusal these are ends that an integration did not ask for; it hears of their
        # next firing with other news only, as from Alertmanager.
        if entry is None or not entry.refused_ms:
            return
        if unheard := (entry.firing - entry.told) & over:
            self.write(group_key, integration, replace(entry, firing=entry.firing - unheard))

    def forget(self, group_key: str, now_ms: int) -> None:
        """The group is gone: its entries that owe nothing and have expired may go too."""
        integrations = self._integrations.get(group_key, set())
        for integration in list(integrations):
            entry = self._entries[group_key, integration]
            if not entry.told and entry.expires_ms <= now_ms:
                self._replace((group_key, integration), None)
                integrations.discard(integration)
        if not integrations:
            self._integrations.pop(group_key, None)

    def sweep(self, alive: AbstractSet[str], now_ms: int) -> None:
        """`forget` every group but those that are alive."""
        for group_key in self._integrations.keys() - alive:
            self.forget(group_key, now_ms)

    def all_changed(self) -> None:
        """Nothing of it is on the disk any more."""
        self.changed |= self._entries.keys()
        self.newly_sent_as |= self.sent_as.keys()

    def saved(self) -> None:
        """What changed is on the disk."""
        self.changed.clear()
        self.newly_sent_as.clear()

    def _replace(self, key: Key, entry: LogEntry | None) -> None:
        before = self._entries.pop(key, None)
        for identity in before.told if before else ():
            self._owing[identity].discard(key)
            if not self._owing[identity]:
                del self._owing[identity]
        if entry is not None:
            self._entries[key] = entry
            for identity in entry.told:
                self._owing.setdefault(identity, set()).add(key)
        self.changed.add(key)
