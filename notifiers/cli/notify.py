"""`stallwatch notify`: try the receivers, ask the routes, see what waits and what was given up."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from engine.alerts.alert import Alert, AlertState
from engine.alerts.wording import inert
from engine.cli.alerts import checked_url
from engine.config.loader import load_alertmanager, load_config
from engine.forecasts import ForecastSettings, add_options
from engine.labels import Labels
from engine.state.shelter import present
from engine.timestamps import format_rfc3339
from notifiers.cli.resend import show_resent
from notifiers.cli.routes import show_routes
from notifiers.cli.simulate import show_simulation
from notifiers.integrations import integrations
from notifiers.notification import Notification
from notifiers.origin import Origin
from notifiers.outbox import Outbox
from notifiers.receivers.receiver import SendError
from notifiers.worker import send, unix_ms
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse

    from engine.config.model import Config
    from notifiers.entry import Entry, State
    from notifiers.worker import Integration

CONCURRENCY = 8
# Of an id; enough to name a message.
SHOWN_DIGITS = 12
_ROUTE = "stallwatch notify route alertname=LinkDown tier=1"
_RESEND = "stallwatch notify dead --resend --all"
STATES: dict[str, State] = {"pending": "pending", "dead": "failed"}


class NotifyCommand:
    """Try the receivers; ask the routes; list the outbox."""

    summary = "send a test alert, ask who is told of an alert, list what waits or was given up"
    example = "stallwatch notify test --config stallwatch.yaml --receiver oncall"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions and their options."""
        parser.add_argument(
            "action",
            choices=("test", "route", "simulate", *STATES),
            help="test: send a test alert directly; route: show who is told of an alert with these "
            "labels; simulate: show who would have been told of a dry-run's alerts; pending, dead: "
            "list what waits, and what was given up",
        )
        parser.add_argument(
            "labels",
            nargs="*",
            metavar="LABEL=VALUE|FILE|ID",
            help="of the alert, for 'route'; what 'dry-run --format json' wrote, for 'simulate'; of"
            " the messages, or how they begin, for 'dead --resend'",
        )
        parser.add_argument("--config", help="configuration file (default: as for 'run')")
        parser.add_argument(
            "--alertmanager-config", metavar="FILE", help="an alertmanager.yml in its place"
        )
        parser.add_argument("--receiver", help="only this receiver")
        parser.add_argument("--state", help="state directory (default: the configuration's)")
        parser.add_argument(
            "--tree", action="store_true", help="with 'route': the whole tree, > where it goes"
        )
        parser.add_argument(
            "--verify-receivers",
            "--verify.receivers",
            metavar="NAME,NAME",
            help="with 'route': exit 1 unless just these are told, in the order of the tree",
        )
        parser.add_argument(
            "--each", action="store_true", help="with 'simulate': list the messages, too"
        )
        add_options(parser.add_argument_group("with 'simulate'"))
        _add_resend(parser.add_argument_group("with 'dead'"))
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Exit 0: all took it, or the list was printed. Exit 1: a receiver did not take it."""
        _check_usage(args)
        config = _configuration(args)
        if args.action == "simulate":
            as_json = args.format == "json"
            settings = ForecastSettings.of(args)
            return show_simulation(config, args.labels, settings, each=args.each, as_json=as_json)
        if args.action == "route":
            as_json = args.format == "json"
            verify = args.verify_receivers
            return show_routes(
                config, args.labels, tree=args.tree, as_json=as_json, expected=verify
            )
        if args.action == "test":
            return try_receivers(config, args.receiver, as_json=args.format == "json")
        folder = Path(args.state) if args.state else config.state_dir
        if args.resend:
            ids = None if args.all else args.labels
            as_json, url = args.format == "json", args.url and checked_url(args.url)
            return show_resent(config, folder / "state.db", ids, url=url, as_json=as_json)
        found = _entries(folder / "state.db", STATES[args.action])
        chosen = [entry for entry in found if args.receiver in {None, entry.receiver}]
        if args.format == "json":
            print(json.dumps([_record(entry) for entry in chosen], indent=2))
        else:
            print("\n".join(_line(entry) for entry in chosen) or f"nothing is {args.action}")
        return 0


def _add_resend(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--resend", action="store_true", help="send them again, and say what becomes of it"
    )
    group.add_argument("--all", action="store_true", help="all that are dead")
    group.add_argument("--url", help="another agent, such as http://gpu-17:9466")


def _configuration(args: argparse.Namespace) -> Config:
    if args.alertmanager_config is None:
        return load_config(args.config)
    if args.config is not None:
        raise StallwatchError("stallwatch: give --config or --alertmanager-config, not both")
    return load_alertmanager(args.alertmanager_config)


def _check_usage(args: argparse.Namespace) -> None:
    """Raises StallwatchError for what belongs to another action."""
    takes_words = args.action in {"route", "simulate"} or args.resend
    of_routes = args.tree or args.verify_receivers is not None
    if args.action == "test" and any(map(os.path.exists, args.labels)):
        hint = f"tests of delivery are run by 'stallwatch test {shlex.join(args.labels)}'"
        message = "stallwatch: 'notify test' sends a test alert, and takes no file"
        raise StallwatchError(f"{message}\n    hint: {hint}")
    if (args.labels and not takes_words) or (of_routes and args.action != "route"):
        raise StallwatchError(f"stallwatch: labels and --tree are for 'route': {_ROUTE}")
    if (args.resend or args.all) and args.action != "dead":
        raise StallwatchError(f"stallwatch: --resend and --all are for 'dead': {_RESEND}")
    if args.all and not args.resend:
        raise StallwatchError(f"stallwatch: --all is for --resend: {_RESEND}")
    if args.resend and bool(args.labels) == args.all:
        raise StallwatchError(
            f"stallwatch: which messages? Name ids, or --all: {_RESEND}\n"
            "    hint: 'stallwatch notify dead' lists them"
        )


def try_receivers(config: Config, receiver: str | None, *, as_json: bool = False) -> int:
    """Send a test alert to every integration at once; a line each. 1 if any did not take it."""
    names = [one.name for one in config.receivers]
    if receiver is not None and receiver not in names:
        known = f"there is {', '.join(names)}" if names else "the configuration names none"
        raise StallwatchError(f"stallwatch: there is no receiver '{receiver}'\n    hint: {known}")
    chosen = [one for one in integrations(config) if receiver in {None, one.receiver}]
    if not chosen:
        raise StallwatchError(
            "stallwatch: no receiver to test\n"
            "    hint: name one under 'receivers:' in stallwatch.yaml (see --config)"
        )
    origin = Origin.of(config)
    alert = sample_alert(config)
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        failures = list(pool.map(lambda one: _try(one, alert, origin), chosen))
    tried = list(zip(chosen, failures, strict=True))
    if as_json:
        print(json.dumps([_outcome(one, failure) for one, failure in tried], indent=2))
    else:
        for one, failure in tried:
            place = f"{one.receiver}/{one.kind} ({one.target.label})"
            print(f"{'FAILED' if failure else 'ok':<6}  {place}{failure and f': {failure}'}")
    return 1 if any(failures) else 0


def _outcome(one: Integration, failure: str) -> dict[str, object]:
    return {
        "receiver": one.receiver,
        "integration": one.kind,
        "target": one.target.label,
        "ok": not failure,
        "reason": failure,
    }


def sample_alert(config: Config) -> Alert:
    """An alert that nobody can take for a real one."""
    now_ms = unix_ms()
    labels = {"alertname": "StallwatchTestAlert", "severity": "none", "node": config.node}
    return Alert(
        labels=Origin.of(config).labelled(Labels(labels)),
        annotations={
            "summary": "This is a test of stallwatch's notifications. Nothing is wrong.",
            "description": "It was sent by hand with 'stallwatch notify test'.",
        },
        state=AlertState.FIRING,
        value=1.0,
        active_at_ms=now_ms,
        fired_at_ms=now_ms,
    )


def _try(one: Integration, alert: Alert, origin: Origin) -> str:
    """Why it was not taken; "" when it was."""
    labels = alert.labels.to_dict()
    identity = secrets.token_hex(16)
    message = Notification(
        identity, one.receiver, "firing", labels, (alert,), test=True, origin=origin
    )
    try:
        send(one, message)
    except SendError as error:
        return str(error)
    return ""


def _entries(path: Path, state: State) -> list[Entry]:
    if not path.exists():
        raise StallwatchError(
            f"stallwatch: there is no outbox at {path}\n"
            "    hint: the agent makes it at its first start; --state names its directory"
        )
    outbox = Outbox(str(present(path)))
    try:
        outbox.create()
        return outbox.entries(state, limit=-1)
    finally:
        outbox.close()


def _record(entry: Entry) -> dict[str, object]:
    return {
        "id": entry.id,
        "receiver": entry.receiver,
        "integration": entry.integration,
        "status": entry.status,
        "group": entry.group_key,
        "alerts": [alert.labels.to_dict() for alert in entry.alerts],
        "news": entry.news,
        "created_at": entry.created_at_ms / 1000,
        "attempts": entry.attempts,
        "reason": entry.reason,
        "detail": entry.detail,
    }


def _line(entry: Entry) -> str:
    what = f"{entry.status} {_whose(entry)}"
    said = f"{entry.reason}{entry.detail and f' ({inert(entry.detail)})'}" or "not tried yet"
    return (
        f"{entry.id[:SHOWN_DIGITS]}  {format_rfc3339(entry.created_at_ms)}  {entry.integration}"
        f"  {what}  {entry.attempts} attempts: {said}"
    )


def _whose(entry: Entry) -> str:
    if not entry.alerts:
        return "of no alert"
    first, *others = entry.alerts
    name = inert(first.labels.get("alertname"))
    task = inert(first.labels.get("task_id"))
    more = f" and {len(others)} more" if others else ""
    return f"{name}{task and f' {task}'}{more}"
