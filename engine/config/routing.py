"""The sections that say who is told of what: receivers, routes and what belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.config.alertmanager_receivers import AlertmanagerReceivers
from engine.config.global_settings import SECTION, GlobalSettings
from engine.config.message_templates import read_templates
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
    from rules.source import Problem

SECTIONS = frozenset({"receivers", "route", "inhibit_rules", "templates", SECTION, *INTERVALS})
_APPRISE = "apprise"


def read_routing(
    secrets: SecretReader, root: Mapping, kinds: Kinds, *, alertmanagers: bool
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """These sections of one file, by the fields of `Config`; problems are reported.

    Beside them what is wrong in the files of `templates`. `alertmanagers`: the file is an
    alertmanager.yml, not ours.
    """
    report = secrets.report
    templates, wrong = read_templates(secrets, root, alertmanagers=alertmanagers)
    settings = GlobalSettings.read(secrets, root)
    theirs = None
    if alertmanagers:
        apprise = kinds.receivers.get(_APPRISE)
        model = None if apprise is None else apprise()
        theirs = AlertmanagerReceivers(secrets, settings, model, templates)
    receivers = ReceiverReader(report, secrets, kinds, settings, templates, theirs).read(root)
    intervals = read_time_intervals(report, root)
    names = [receiver.name for receiver in receivers]
    route = RouteReader(report, names, [one.name for one in intervals], required=alertmanagers)
    found = {
        "receivers": receivers,
        "time_intervals": intervals,
        "inhibit_rules": read_inhibit_rules(report, root),
        "route": route.read(root),
        "templates": _templates(secrets, root),
    }
    return found, wrong


def _templates(secrets: SecretReader, root: Mapping) -> tuple[str, ...]:
    """Paths and globs, from the file's folder on."""
    found = []
    for node in Fields(secrets.report, root).items("templates"):
        if isinstance(node, Scalar) and node.value:
            found.append(str(secrets.folder / node.value))
        else:
            secrets.report.add(node.span, "each of 'templates' is a path", code="config")
    return tuple(found)
