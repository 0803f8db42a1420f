"""One way to make a dispatcher of a plan, for live delivery and for simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from notifiers.dispatch.dispatcher import Dispatcher
from notifiers.dispatch.flapping import Flaps
from notifiers.dispatch.message import Addressee
from notifiers.dispatch.muting import Muting
from notifiers.dispatch.sent_labels import SentLabels
from notifiers.inhibition import Inhibitor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from notifiers.dispatch.group import Timer
    from notifiers.dispatch.log import NotificationLog
    from notifiers.dispatch.muting import Silences, Watch
    from notifiers.origin import Origin
    from notifiers.routing.plan import Plan
    from notifiers.worker import Integration


def addressees(found: Iterable[Integration]) -> dict[str, list[Addressee]]:
    """Whom a receiver's messages go to, by receiver; signs of life hear of no alert."""
    by_receiver: dict[str, list[Addressee]] = {}
    for one in found:
        if one.hears:
            to = Addressee(one.key, one.send_resolved, one.limit)
            by_receiver.setdefault(one.receiver, []).append(to)
    return by_receiver


def open_dispatcher(
    plan: Plan,
    to: Mapping[str, list[Addressee]],
    origin: Origin,
    log: NotificationLog,
    timers: Mapping[str, Timer] | None = None,
    silences: Silences | None = None,
    watch: Watch | None = None,
) -> Dispatcher:
    """A dispatcher that knows what is in the log.

    `origin`: what alerts are labelled with. `timers`: of groups that an earlier process had.
    `watch`: see `Muting`.
    """
    sent = SentLabels(origin, log)
    muting = Muting(Inhibitor(plan.inhibit_rules), plan.times, silences, sent, watch)
    flaps = None if plan.flapping is None else Flaps(plan.flapping)
    return Dispatcher(plan.root, to, muting, log, timers, keeps_owed=plan.keeps_owed, flaps=flaps)
