"""`stallwatch alerts`: what a running agent is alerting on now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.address import local_url
from engine.alerts.matchers import MatcherError, all_match
from engine.alerts.wording import evidence_text, inert
from engine.cli.selection import login_name, read_matchers
from engine.http.client import NoAgentError, ask, exchange
from engine.http.paths import ACKNOWLEDGE, WITHDRAW
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from engine.alerts.matchers import Matcher

MOST_INHIBITED = 5
EXAMPLE_URL = "http://127.0.0.1:9466"
# By the API's names: why nobody is told of an alert.
WHY_UNTOLD = {
    "silencedBy": "silenced by",
    "inhibitedBy": "inhibited by",
    "mutedBy": "muted by the times",
}


class AlertsCommand:
    """List the active alerts of a running agent, and acknowledge some of them."""

    summary = "list the active alerts of a running agent, with their evidence, or acknowledge some"
    example = "stallwatch alerts ack TaskStalled task_id=slurm:7.0 --comment 'on it'"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions and their options."""
        parser.add_argument(
            "action",
            nargs="?",
            choices=("list", "ack", "unack"),
            default="list",
            help="list (the default); ack: no more repeats of those that fire and match, until they"
            " end; unack: take that back",
        )
        parser.add_argument(
            "matchers",
            nargs="*",
            metavar="MATCHER",
            help="list, ack, unack: such as rank=3 or 'node=~\"gpu-.*\"', a word alone is the"
            " alertname",
        )
        parser.add_argument("--comment", default="", help="ack: what is being done")
        parser.add_argument("--author", help="ack: who (default: the login name)")
        parser.add_argument("--config", metavar="FILE", help="whose `listen` address to ask")
        parser.add_argument("--url", help="another agent, such as http://gpu-17:9466")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Exit 0, with and without alerts; 1 where there was none to acknowledge.

        Raises StallwatchError when nobody answers.
        """
        matchers = _matchers(args)
        url = args.url or own_url(args.config)
        if args.action != "list":
            return _acknowledge(args, url)
        found = [one for one in fetch(url) if all_match(matchers, one["labels"])]
        if args.format == "json":
            print(json.dumps({"alerts": found}, indent=2))
        elif not found:
            print("no active alerts")
        else:
            print("\n".join(line for alert in found for line in describe(alert)))
        return 0


def _matchers(args: argparse.Namespace) -> tuple[Matcher, ...]:
    if args.action != "list" and not args.matchers:
        hint = f"name matchers, such as in: {AlertsCommand.example}"
        raise StallwatchError(f"stallwatch alerts {args.action}: which?\n    hint: {hint}")
    if args.action != "ack" and (args.comment or args.author):
        raise StallwatchError("stallwatch alerts: --comment and --author are for 'ack'")
    try:
        return read_matchers(args.matchers)
    except MatcherError as error:
        raise StallwatchError(f"stallwatch alerts: {error}") from error


def _acknowledge(args: argparse.Namespace, url: str) -> int:
    """Ask the agent, and print the alerts that it found. Raises StallwatchError."""
    asked: dict[str, Any] = {"matchers": [str(one) for one in read_matchers(args.matchers)]}
    path = WITHDRAW
    if args.action == "ack":
        asked |= {"author": args.author or login_name(), "comment": args.comment}
        path = ACKNOWLEDGE
    _, body = exchange(checked_url(url), path, "POST", json.dumps(asked).encode())
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            said = inert(str(answer["error"]), 500)
            raise StallwatchError(f"stallwatch alerts {args.action}: {said}")
        found: list[dict[str, str]] = answer["data"]
    except (ValueError, KeyError, TypeError) as error:
        raise _no_agent(url) from error
    if args.format == "json":
        print(json.dumps({"alerts": found}, indent=2))
    else:
        print("\n".join(_named(labels) for labels in found) or "no alert that fires matches")
    return 0 if found else 1


def _named(labels: dict[str, str]) -> str:
    rest = dict(labels)
    name = rest.pop("alertname", "")
    return f"{inert(name)}  {_pairs(rest)}".strip()


def _pairs(labels: dict[str, str]) -> str:
    return ", ".join(f"{key}={inert(value)}" for key, value in sorted(labels.items()))


def _no_agent(url: str) -> NoAgentError:
    return NoAgentError(
        f"stallwatch: {url} does not answer as an agent does\n    hint: --url names another address"
    )


def own_url(config: str | None) -> str:
    """Where the agent of a configuration answers. Raises ProblemsError for a broken one."""
    from engine.config.loader import load_config

    return local_url(load_config(config).listen)


def fetch(url: str) -> list[dict[str, Any]]:
    """`/api/v1/alerts` of the agent at `url`. Raises StallwatchError."""
    body = ask(checked_url(url), "/api/v1/alerts")
    try:
        found: list[dict[str, Any]] = json.loads(body)["data"]["alerts"]
    except (ValueError, KeyError, TypeError) as error:
        raise _no_agent(url) from error
    return found


def checked_url(url: str) -> str:
    """The URL, which has to be one of HTTP. Raises StallwatchError."""
    if not url.startswith(("http://", "https://")):
        raise StallwatchError(f"stallwatch: '{inert(url)}' is no URL\n    hint: {EXAMPLE_URL}")
    return url


def describe(alert: dict[str, Any]) -> Iterator[str]:
    """One alert in lines, every value inert."""
    labels = dict(alert["labels"])
    name = labels.pop("alertname", "")
    since = alert.get("firedAt", alert["activeAt"])
    yield f"{alert['state']:<8} {inert(name)}  value {float(alert['value']):.6g}  since {since}"
    yield f"         {_pairs(labels)}"
    if summary := alert["annotations"].get("summary"):
        yield f"         {inert(summary)}"
    for name, words in WHY_UNTOLD.items():
        if by := alert.get(name):
            if name == "inhibitedBy":
                by = [_named(each) for each in alert.get("inhibitors", ())] or by
            yield f"         {words} {', '.join(map(inert, by))}"
    for each in alert.get("inhibits", ())[:MOST_INHIBITED]:
        yield f"         keeps back {_named(each)}"
    if (more := len(alert.get("inhibits", ())) - MOST_INHIBITED) > 0:
        yield f"         keeps back {more} more"
    if seen := alert.get("acknowledged"):
        why = f": {inert(seen['comment'])}" if seen["comment"] else ""
        yield f"         acknowledged by {inert(seen['by'])} at {seen['at']}{why}"
    if alert.get("dropped"):
        yield "         told to nobody: 'alert_relabel_configs' drops it"
    for entry in alert.get("evidence", ()):
        yield f"         - {evidence_text(entry)}"
