"""`stallwatch alerts`: what a running agent is alerting on now."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from engine.alerts.wording import CONNECTION_FIELDS, cell, connection, inert, process
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

DEFAULT_URL = "http://127.0.0.1:9466"
TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 << 20


class AlertsCommand:
    """List the active alerts of a running agent."""

    summary = "list the active alerts of a running agent, with their evidence"
    example = "stallwatch alerts --format json"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add --url and --format."""
        parser.add_argument("--url", default=DEFAULT_URL, help=f"the agent (default {DEFAULT_URL})")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print; exit 0, with and without alerts. Raises StallwatchError when nobody answers."""
        found = fetch(args.url)
        if args.format == "json":
            print(json.dumps({"alerts": found}, indent=2))
        elif not found:
            print("no active alerts")
        else:
            print("\n".join(line for alert in found for line in describe(alert)))
        return 0


def fetch(url: str) -> list[dict[str, Any]]:
    """`/api/v1/alerts` of the agent at `url`. Raises StallwatchError."""
    hint = "is the agent running ('stallwatch run')? --url names another address"
    if not url.startswith(("http://", "https://")):
        raise StallwatchError(f"stallwatch: '{inert(url)}' is no URL\n    hint: {DEFAULT_URL}")
    # No proxy: the agent is on this machine, or named on purpose.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url.rstrip('/')}/api/v1/alerts", timeout=TIMEOUT_SECONDS) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read(MAX_ANSWER_BYTES))["data"][
                "alerts"
            ]
    except urllib.error.HTTPError as error:
        raise StallwatchError(
            f"stallwatch: {url} answers HTTP {error.code}\n    hint: is that a stallwatch agent?"
        ) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        said = getattr(reason, "strerror", None) or reason
        raise StallwatchError(f"stallwatch: no agent at {url}: {said}\n    hint: {hint}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StallwatchError(
            f"stallwatch: {url} does not answer as an agent does\n    hint: {hint}"
        ) from error
    return found


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
    for entry in alert.get("evidence", ()):
        yield f"         - {evidence_line(entry)}"


def evidence_line(entry: dict[str, Any]) -> str:
    """`rank 0  python[4711]  10.0.0.1:29500 → 10.0.0.2:41234  retransmits 12`."""
    parts = [f"rank {cell(entry, 'rank')}" if cell(entry, "rank") else ""]
    parts += [process(entry), connection(entry)]
    parts += [
        f"{inert(name)} {cell(entry, name)}" for name in entry if name not in CONNECTION_FIELDS
    ]
    return "  ".join(part for part in parts if part)
