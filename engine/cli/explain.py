"""`stallwatch explain`: why an alert fires, of a running agent or over recorded data."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from engine.alerts.fingerprint import fingerprint
from engine.alerts.matchers import MatcherError, all_match
from engine.alerts.wording import inert
from engine.cli.alerts import checked_url, fetch, own_url
from engine.cli.data import DATA_HELP, TIME_HELP
from engine.cli.selection import read_matchers
from engine.http.client import NoAgentError, exchange
from engine.http.paths import EXPLAIN
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.matchers import Matcher

MOST_LISTED = 20


class ExplainCommand:
    """Say why an alert fires."""

    summary = "say why an alert fires: its value, what was expected, its peers, in words or drawn"
    example = "stallwatch explain StragglingRank rank=3 --picture why.png"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the alert, whom to ask and what to make of the answer."""
        parser.add_argument(
            "matchers",
            nargs="+",
            metavar="ALERT",
            help="its name, and where several have it, labels, such as rank=3",
        )
        parser.add_argument("--config", metavar="FILE", help="whose `listen` address to ask")
        parser.add_argument("--url", help="another agent, such as http://gpu-17:9466")
        group = parser.add_argument_group("of recorded data instead")
        group.add_argument("--data", metavar="PATH", help=DATA_HELP)
        group.add_argument(
            "--rules", nargs="+", metavar="PATH", help="file, directory or glob, as for dry-run"
        )
        group.add_argument(
            "--at",
            metavar="TIME",
            help=f"an alert that fires then: {TIME_HELP}; default: any that fired",
        )
        parser.add_argument(
            "--picture",
            metavar="FILE",
            help="also draw the last hour, with threshold, what was expected, peers and onset, as"
            " PNG",
        )
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Exit 0. Raises StallwatchError, also where no alert, or more than one, is meant."""
        found = _explained(args)
        try:
            _show(args, found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if args.data is not None:
                raise
            raise _not_ours(args.url or own_url(args.config)) from error
        return 0


def _show(args: argparse.Namespace, found: dict[str, Any]) -> None:
    if args.picture:
        from engine.explanation.picture import save

        save(found, args.picture)
    found.pop("panels", None)
    if args.format == "json":
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        from engine.explanation.wording import lines

        print("\n".join(lines(found)))


def _not_ours(url: str) -> NoAgentError:
    return NoAgentError(
        f"stallwatch: {url} does not answer as an agent does\n"
        "    hint: is it of another version? --url names another address"
    )


def _explained(args: argparse.Namespace) -> dict[str, Any]:
    try:
        matchers = read_matchers(args.matchers)
    except MatcherError as error:
        raise StallwatchError(f"stallwatch explain: {error}") from error
    if args.data is None and (args.rules or args.at):
        raise StallwatchError("stallwatch explain: --rules and --at go with --data")
    if args.data is None:
        return _of_agent(args, matchers)
    if args.url or not args.rules:
        hint = "it says which rules to run over the data" if not args.rules else "ask one of both"
        what = "--data needs --rules" if not args.rules else "--url and --data exclude each other"
        raise StallwatchError(f"stallwatch explain: {what}\n    hint: {hint}")
    return _of_recording(args, matchers)


def _of_agent(args: argparse.Namespace, matchers: Sequence[Matcher]) -> dict[str, Any]:
    url = checked_url(args.url or own_url(args.config))
    active = fetch(url)
    place = _chosen(active, matchers, lambda: _names_at(url), "does not fire")
    asked = {"fingerprint": fingerprint(active[place]["labels"])}
    if args.picture:
        asked["panels"] = "true"
    answer = _answer(url, f"{EXPLAIN}?{urlencode(asked)}")
    if not isinstance(answer, dict):
        raise _not_ours(url)
    return answer


def _names_at(url: str) -> set[str]:
    groups = _answer(url, "/api/v1/rules?type=alert&exclude_alerts=true")["groups"]
    return {rule["name"] for group in groups for rule in group["rules"]}


def _answer(url: str, path: str) -> Any:
    _, body = exchange(url, path)
    try:
        answer = json.loads(body)
        if answer["status"] == "success":
            return answer["data"]
        said = inert(str(answer["error"]), 500)
    except (ValueError, KeyError, TypeError) as error:
        raise _not_ours(url) from error
    raise StallwatchError(said if said.startswith("stallwatch") else f"stallwatch explain: {said}")


def _of_recording(args: argparse.Namespace, matchers: Sequence[Matcher]) -> dict[str, Any]:
    # numpy and what reads data are slow to import, and an agent is asked without them.
    from engine.cli.recorded_alerts import Recorded

    recorded = Recorded.of(args.data, args.rules, args.at, args.config)
    place = _chosen(recorded.shown, matchers, lambda: recorded.names, recorded.is_not)
    return recorded.explained(place, with_panels=bool(args.picture))


def _chosen(
    alerts: Sequence[Mapping[str, Any]],
    matchers: Sequence[Matcher],
    names: Callable[[], set[str]],
    is_not: str,
) -> int:
    """The place of the one that is meant; `names` of all rules, `is_not`: what other ones are not.

    Raises StallwatchError, which says what there is.
    """
    places = [place for place, one in enumerate(alerts) if all_match(matchers, one["labels"])]
    if len(places) == 1:
        return places[0]
    if places:
        same = len({fingerprint(alerts[place]["labels"]) for place in places}) < len(places)
        how = "labels, or --at a time at which it fired" if same else "labels"
        found = [alerts[place] for place in places]
        raise StallwatchError(
            f"stallwatch explain: {len(places)} alerts are meant\n    hint: choose one by {how}:"
            f"{_listed(found)}"
        )
    named = next((one.value for one in matchers if one.label == "alertname" and one.op == "="), "")
    what = "no alert has these labels"
    if named and not any(one["labels"].get("alertname") == named for one in alerts):
        what = f"'{inert(named)}' {is_not}"
        if named not in (known := names()):
            near = difflib.get_close_matches(named, known, n=1)
            meant = f", did you mean '{inert(near[0])}'?" if near else ""
            what = f"there is no alert named '{inert(named)}'{meant}"
    hint = f"there are:{_listed(alerts)}" if alerts else "nor does any other alert"
    raise StallwatchError(f"stallwatch explain: {what}\n    hint: {hint}")


def _listed(alerts: Sequence[Mapping[str, Any]]) -> str:
    shown = []
    for one in alerts[:MOST_LISTED]:
        labels = dict(one["labels"])
        name = inert(labels.pop("alertname", ""))
        pairs = " ".join(f"{own}={inert(value)}" for own, value in sorted(labels.items()))
        since = one.get("firedAt", one["activeAt"])
        shown.append(f"\n      {name} {pairs}  since {since}")
    if (more := len(alerts) - MOST_LISTED) > 0:
        shown.append(f"\n      and {more} more")
    return "".join(shown)
