"""`stallwatch alerts`: what a running agent is alerting on now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.address import local_url
from engine.alerts.wording import evidence_text, inert
from engine.http.client import NoAgentError, ask
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EXAMPLE_URL = "http://127.0.0.1:9466"
# By the API's names: why nobody is told of an alert.
WHY_UNTOLD = {
    "silencedBy": "silenced by",
    "inhibitedBy": "inhibited by",
    "mutedBy": "muted by the times",
}


class AlertsCommand:
    """List the active alerts of a running agent."""

    summary = "list the active alerts of a running agent, with their evidence"
    example = "stallwatch alerts --format json"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add --config, --url and --format."""
        parser.add_argument("--config", metavar="FILE", help="whose `listen` address to ask")
        parser.add_argument("--url", help="another agent, such as http://gpu-17:9466")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print; exit 0, with and without alerts. Raises StallwatchError when nobody answers."""
        found = fetch(args.url or own_url(args.config))
        if args.format == "json":
            print(json.dumps({"alerts": found}, indent=2))
        elif not found:
            print("no active alerts")
        else:
            print("\n".join(line for alert in found for line in describe(alert)))
        return 0


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
        raise NoAgentError(
            f"stallwatch: {url} does not answer as an agent does\n"
            "    hint: --url names another address"
        ) from error
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
    pairs = ", ".join(f"{key}={inert(value)}" for key, value in sorted(labels.items()))
    since = alert.get("firedAt", alert["activeAt"])
    yield f"{alert['state']:<8} {inert(name)}  value {float(alert['value']):.6g}  since {since}"
    yield f"         {pairs}"
    if summary := alert["annotations"].get("summary"):
        yield f"         {inert(summary)}"
    for name, words in WHY_UNTOLD.items():
        if by := alert.get(name):
            yield f"         {words} {', '.join(map(inert, by))}"
    if alert.get("dropped"):
        yield "         told to nobody: 'alert_relabel_configs' drops it"
    for entry in alert.get("evidence", ()):
        yield f"         - {evidence_text(entry)}"
