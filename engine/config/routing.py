"""The sections that say who is told of what: receivers, routes and what belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.config.alertmanager_receivers import AlertmanagerReceivers
from engine.config.global_settings import SECTION, GlobalSettings
from engine.config.receivers import ReceiverReader
from engine.config.routes import RouteReader, read_inhibit_rules
from engine.config.time_intervals import SECTIONS as INTERVALS
from engine.config.time_intervals import read_time_intervals
from rules.document import Scalar
from rules.fields import Fields

if TYPE_CHECKING:
    from engine.config.kinds import Kinds
    from engine.config.secrets import SecretReader
    from rules.document import Mapping

SECTIONS = frozenset({"receivers", "route", "inhibit_rules", "templates", SECTION, *INTERVALS})
_APPRISE = "apprise"


def read_routing(
    secrets: SecretReader, root: Mapping, kinds: Kinds, *, alertmanagers: bool
) -> dict[str, Any]:
    """These sections of one file, by the fields of `Config`; problems are reported.

    `alertmanagers`: the file is an alertmanager.yml, not ours.
    """
    report = secrets.report
    settings = GlobalSettings.read(secrets, root)
    theirs = None
    if alertmanagers:
        apprise = kinds.receivers.get(_APPRISE)
        theirs = AlertmanagerReceivers(secrets, settings, None if apprise is None else apprise())
    receivers = ReceiverReader(report, secrets, kinds, settings, theirs).read(root)
    intervals = read_time_intervals(report, root)
    names = [receiver.name for receiver in receivers]
    route = RouteReader(report, names, [one.name for one in intervals], required=alertmanagers)
    return {
        "receivers": receivers,
        "time_intervals": intervals,
        "inhibit_rules": read_inhibit_rules(report, root),
        "route": route.read(root),
        "templates": _templates(secrets, root),
    }


def _templates(secrets: SecretReader, root: Mapping) -> tuple[str, ...]:
    """Paths and globs, from the file's folder on."""
    found = []
    for node in Fields(secrets.report, root).items("templates"):
        if isinstance(node, Scalar) and node.value:
            found.append(str(secrets.folder / node.value))
        else:
            secrets.report.add(node.span, "each of 'templates' is a path", code="config")
    return tuple(found)
