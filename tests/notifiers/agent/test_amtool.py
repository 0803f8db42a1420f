"""amtool of Debian's prometheus-alertmanager against a running agent, on a rule that fires."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AMTOOL = shutil.which("amtool")
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(
    AMTOOL is None, reason="amtool (apt: prometheus-alertmanager) is not installed"
)


@pytest.fixture
def amtool(agent: Any) -> Callable[..., str]:
    def call(*words: str, fails: bool = False) -> str:
        command = [str(AMTOOL), f"--alertmanager.url={agent.url}", "--no-version-check", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert bool(done.returncode) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return call


@pytest.fixture
def silences(amtool: Any) -> Callable[..., dict[str, Any]]:
    """What `amtool silence query` finds, by id."""

    def query(*words: str) -> dict[str, Any]:
        found = json.loads(amtool("silence", "query", "-o", "json", *words))
        return {one["id"]: one for one in found}

    return query


def test_a_silence_is_added_found_updated_and_expired(amtool: Any, silences: Any) -> None:
    words = ["alertname=Fast", 'rank=~"1|2"', "--comment=switch is replaced", "--author=jane"]
    identity = amtool("silence", "add", *words, "--duration=2h").strip()
    found = silences()[identity]
    assert (found["createdBy"], found["comment"]) == ("jane", "switch is replaced")
    assert [(one["name"], one["value"], one["isRegex"]) for one in found["matchers"]] == [
        ("alertname", "Fast", False),
        ("rank", "1|2", True),
    ]
    assert list(silences("alertname=Fast")) == [identity]
    assert silences("alertname=Other") == {}

    amtool("silence", "update", "--comment=and the cable", "--duration=4h", identity)
    updated = silences()[identity]
    assert updated["comment"] == "and the cable"
    assert updated["endsAt"] > found["endsAt"]
    assert updated["startsAt"] == found["startsAt"]

    amtool("silence", "expire", identity)
    assert identity not in silences()
    assert identity in silences("--expired")


def test_silences_go_out_as_json_and_come_in_again(
    amtool: Any, silences: Any, tmp_path: Path
) -> None:
    identity = amtool("silence", "add", "alertname=Moved", "--comment=c").strip()
    file = tmp_path / "silences.json"
    file.write_text(json.dumps(list(silences("alertname=Moved").values())))
    amtool("silence", "expire", identity)
    amtool("silence", "import", str(file))
    (again,) = silences("alertname=Moved").values()
    assert again["id"] != identity
    amtool("silence", "expire", again["id"])


def await_alerts(amtool: Any, count: int, *words: str) -> list[dict[str, Any]]:
    """Alerts that amtool shows, once there are so many; it asks for active ones."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found: list[dict[str, Any]] = json.loads(amtool("alert", "query", "-o", "json", *words))
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_alerts_are_found_and_silenced_ones_only_when_asked_for(amtool: Any) -> None:
    labels = [one["labels"] for one in await_alerts(amtool, 2)]
    assert {one["rank"] for one in labels} == {"1", "2"}
    assert {one["cluster"] for one in labels} == {"a"}
    (one,) = await_alerts(amtool, 1, "rank=2")
    assert one["receivers"] == [{"name": "oncall"}]
    assert one["annotations"] == {"summary": "waits"}

    identity = amtool("silence", "add", "rank=1", "cluster=a", "--comment=c").strip()
    (active,) = await_alerts(amtool, 1)
    assert active["labels"]["rank"] == "2"
    (silenced,) = await_alerts(amtool, 1, "--silenced")
    assert silenced["status"]["silencedBy"] == [identity]
    assert silenced["status"]["state"] == "suppressed"
    amtool("silence", "expire", identity)
    await_alerts(amtool, 2)


def test_what_is_wrong_is_said(amtool: Any) -> None:
    past = ["--start=2001-01-01T00:00:00Z", "--end=2002-01-01T00:00:00Z"]
    said = amtool("silence", "add", "Slow", "--comment=c", *past, fails=True)
    assert "end time can't be in the past" in said
    said = amtool("silence", "expire", "0b0d1f3a-0f62-4a68-8f0f-27c4a44a6a3e", fails=True)
    assert "404" in said


def test_configuration_routes_and_cluster_are_shown(amtool: Any) -> None:
    assert "receivers:\n- name: oncall\n" in amtool("config", "show")
    assert "disabled" in amtool("cluster", "show")
    assert amtool("config", "routes", "test", "rank=1") == "oncall\n"
