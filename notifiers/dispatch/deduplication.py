"""Whether a group has news for an integration, and which: `decide`.

Source: `DedupStage.needsUpdate` in notify/notify.go of Alertmanager, with one difference: what
was resolved is told to whoever was told that it fired, and to nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from notifiers.dispatch.log import LogEntry
from rules.slotted import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from notifiers.dead_letters import Told

# The words of Alertmanager's `notification_reason`.
Reason: TypeAlias = Literal[
    "first notification",
    "new alerts added",
    "some alerts resolved",
    "all alerts resolved",
    "repeat interval elapsed",
]
# How long Alertmanager keeps its log (`--data.retention`).
RETENTION_MS = 120 * 3_600_000
# After a message was refused for good: Alertmanager's default group interval. A receiver that is
# misconfigured shall not get a dead letter at each tick of a short one.
REFUSED_PAUSE_MS = 300_000


@dataclass(frozen=True, slots=True)
class News:
    """What to tell: fingerprints, why, and the log's entry once it is told.

    `silent`: nothing is sent, as the integration does not ask for resolutions; the entry is
    written all the same.
    """

    reason: Reason
    firing: frozenset[str]
    resolved: frozenset[str]
    entry: LogEntry
    silent: bool = False


def decide(
    entry: LogEntry | None,
    firing: AbstractSet[str],
    resolved: AbstractSet[str],
    *,
    now_ms: int,
    repeat_ms: int,
    send_resolved: bool = True,
    seen: bool = False,
) -> News | None:
    """The news in a group's alerts that are not muted; None: there are none.

    An entry that has expired is as good as none, but what it owes is still owed. `seen`: all that
    fires has been acknowledged, so that it is not told once more.
    """
    before = entry or LogEntry(0, 0)
    known = before if entry is not None and (seen or now_ms < entry.expires_ms) else None
    over = frozenset(resolved & before.told)
    reason = _reason(known, firing, over, now_ms, repeat_ms, send_resolved=send_resolved)
    if seen and reason == "repeat interval elapsed":
        reason = None
    if reason is None and over:
        # It does not ask for resolutions, and the rest is no news: nothing is owed any more.
        settled = replace(before, told=before.told - over)
        return News("some alerts resolved", frozenset(), frozenset(), settled, silent=True)
    if reason is None:
        return None
    after = LogEntry(
        sent_ms=now_ms,
        expires_ms=now_ms + remembered_for_ms(repeat_ms),
        firing=frozenset(firing),
        told=(before.told | firing) - over,
    )
    shown = over if send_resolved else frozenset[str]()
    return News(reason, frozenset(firing), shown, after, silent=not firing and not shown)


def remembered_for_ms(repeat_ms: int) -> int:
    """How long an entry of the log counts, by its group's repeat interval."""
    return min(RETENTION_MS, 2 * repeat_ms)


def _reason(
    known: LogEntry | None,
    firing: AbstractSet[str],
    over: AbstractSet[str],
    now_ms: int,
    repeat_ms: int,
    *,
    send_resolved: bool,
) -> Reason | None:
    if not firing:
        return "all alerts resolved" if over else None
    if known is None:
        return "first notification"
    if not firing <= known.firing:
        return "new alerts added"
    if over and send_resolved:
        return "some alerts resolved"
    if known.refused_ms and not 0 <= now_ms - known.refused_ms < REFUSED_PAUSE_MS:
        return "new alerts added"
    # Sent in the future: the clock was set back, and the repeat shall not wait for it.
    if not now_ms - repeat_ms <= known.sent_ms <= now_ms:
        return "repeat interval elapsed"
    return None


def not_told(entry: LogEntry, unheard: AbstractSet[str], now_ms: int) -> LogEntry:
    """The entry when a message that said what is firing was given up: later it is news again.

    `unheard`: those of which no message before told; nothing is owed for them.
    """
    return replace(entry, told=entry.told - unheard, refused_ms=now_ms)


def told_again(entry: LogEntry | None, message: Told, now_ms: int) -> LogEntry:
    """The entry when a message that was given up is sent again: what it says is told.

    It says nothing of what other messages said that were given up: that is news, and at once, as
    somebody takes the receiver to be mended.
    """
    before = entry or LogEntry(0, now_ms + RETENTION_MS)
    return replace(
        before,
        sent_ms=now_ms,
        firing=(before.firing & before.told) | message.firing,
        told=before.told | message.firing,
        group_labels=message.group_labels,
        receiver=message.receiver,
        refused_ms=0,
    )
