"""Dead letters of a running agent: listed, sent again, and told what becomes of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from engine.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

PATIENCE = 60.0


def test_what_was_refused_is_sent_again_at_once_and_the_command_says_so(
    hook: Any,
    make_agent: Callable[[str], Any],
    support: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hook.always = support.status(400)
    agent = make_agent(hook.url)
    agent.start()
    command = ["notify", "dead", "--config", str(agent.config), "--format", "json"]
    deadline = time.monotonic() + PATIENCE
    dead: list[dict[str, Any]] = []
    while len(dead) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
        if (tmp_path / "state" / "state.db").exists():
            assert main(command) == 0
            dead = json.loads(capsys.readouterr().out)
    first, second = (one["id"] for one in dead)
    again = [*command, "--resend", "--url", agent.url]
    # Refused once more: it is dead again, and the command has found something.
    assert main([*again, first]) == 1
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["id"], said["state"]) == (first, "failed")
    assert "HTTP 400" in said["reason"]
    hook.always = support.status(200)
    assert main([*again, "--all"]) == 0
    states = {one["id"]: one["state"] for one in json.loads(capsys.readouterr().out)}
    assert states == {first: "delivered", second: "delivered"}
    assert hook.ids().count(first) == 3
    assert hook.ids().count(second) == 2
    # Killed and started again it sends neither once more.
    agent.kill()
    agent.start()
    assert main([*again[:-1], agent.url, first]) == 1
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["state"], said["reason"]) == ("not sent", "it was delivered")
