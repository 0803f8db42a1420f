"""How a silence may change: history stays as it was (`Set`, `canUpdate`, `expire` in Alertmanager).

What a silence has held back cannot be undone. So one that has begun keeps its matchers and its
start; a change of those ends it and begins another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from notifiers.silences.silence import check

if TYPE_CHECKING:
    from notifiers.silences.silence import Silence


def changed(
    previous: Silence | None, wanted: Silence, now_ms: int, new_id: str
) -> tuple[Silence, ...]:
    """What has to be stored when `wanted` is asked for; the last one is what it became.

    `previous` is the stored silence with the same id. Raises SilenceError for a silence that
    cannot be.
    """
    check(wanted)
    if previous is not None and _can_update(previous, wanted, now_ms):
        return (replace(wanted, updated_at_ms=now_ms),)
    starts_at_ms = max(wanted.starts_at_ms, now_ms)
    made = replace(wanted, id=new_id, starts_at_ms=starts_at_ms, updated_at_ms=now_ms)
    if previous is None or previous.state(now_ms) == "expired":
        return (made,)
    return expired(previous, now_ms), made


def expired(silence: Silence, now_ms: int) -> Silence:
    """The silence as it is when it ends now; one that has ended already stays as it is."""
    state = silence.state(now_ms)
    if state == "expired":
        return silence
    starts_at_ms = now_ms if state == "pending" else silence.starts_at_ms
    return replace(silence, starts_at_ms=starts_at_ms, ends_at_ms=now_ms, updated_at_ms=now_ms)


def _can_update(previous: Silence, wanted: Silence, now_ms: int) -> bool:
    if previous.matchers != wanted.matchers:
        return False
    state = previous.state(now_ms)
    if state == "active":
        # To the second: a client may have cut what it shows.
        same_start = previous.starts_at_ms // 1000 == wanted.starts_at_ms // 1000
        return same_start and wanted.ends_at_ms >= now_ms
    return state == "pending" and wanted.starts_at_ms >= now_ms
