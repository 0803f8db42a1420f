"""Plays Slack's Web API: channels that hold messages, which can be edited and answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

WEBHOOKS, API = "hooks.slack.com", "slack.com"


@dataclass
class Workspace:
    """`messages`: by (channel, ts), in the order in which they were posted.

    `refuse`: the words with which the next calls are refused.
    """

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    refuse: list[str] = field(default_factory=list)

    def answer(self, handler: Any, body: bytes) -> None:
        """Whatever the host and path ask for."""
        asked = json.loads(body)
        self.tokens.append(handler.headers.get("Authorization", ""))
        if handler.headers["Host"] == WEBHOOKS:
            self.calls.append(("webhook", asked))
            _say(handler, b"ok", "text/html")
            return
        method = handler.path.rpartition("/")[2]
        self.calls.append((method, asked))
        said = (
            {"ok": False, "error": self.refuse.pop(0)} if self.refuse else self._do(method, asked)
        )
        _say(handler, json.dumps(said).encode(), "application/json")

    def _do(self, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        channel = asked["channel"].replace("#ops", "C0PS")
        if method == "chat.postMessage":
            ts = f"17000000{len(self.messages):02d}.000100"
            self.messages[channel, ts] = asked
            return {"ok": True, "channel": channel, "ts": ts, "message": {"text": ""}}
        if (channel, asked["ts"]) not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        self.messages[channel, asked["ts"]] = asked
        return {"ok": True, "channel": channel, "ts": asked["ts"], "text": ""}


def _say(handler: Any, body: bytes, kind: str) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
