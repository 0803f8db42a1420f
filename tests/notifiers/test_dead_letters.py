"""What was given up is sent again on demand: by whom, with which words, and only once."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main
from engine.http.message import JSON, ApiError, Request
from engine.http.paths import MESSAGES, NOTIFY, RESEND
from notifiers.outbox import Outbox

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000
KEY = "ops/webhook/0"


@pytest.fixture
def config(hook: Any, support: Any) -> Any:
    return support.configured(ops=[("webhook", {"url": hook.url})])


@pytest.fixture
def make_dead(hook: Any, make_agent: Any, config: Any, support: Any) -> Any:
    """An agent whose message about some alerts was refused."""

    def make(*alerts: Any) -> Any:
        hook.replies = [support.status(400)] * len(alerts)
        # Its groups do not speak again by themselves.
        agent = make_agent(config, interval_ms=HOUR)
        agent.fire(*alerts)
        agent.settle("failed", len(alerts))
        agent.await_sample("stallwatch_notify_failed_total", len(alerts), reason="rejected")
        return agent

    return make


def resend(agent: Any, ids: list[str] | None = None, known: tuple[str, ...] = (KEY,)) -> list[Any]:
    outbox = Outbox(agent.path)
    try:
        found = outbox.resend(ids, known, 1_700_000_900_000)
    finally:
        outbox.close()
    agent.delivery._wake_all()
    return [(one.id, one.refused) for one in found]


def heard(hook: Any) -> list[tuple[str, str, bool]]:
    """(alert, status, whether it says that it may be a repeat)."""
    return [
        (one["labels"]["alertname"], one["status"], "X-Stallwatch-Repeat" in headers)
        for headers, body in hook.received
        for one in json.loads(body)["alerts"]
    ]


def test_a_dead_letter_is_sent_again_under_its_id_and_its_end_is_owed(
    hook: Any, make_dead: Any, support: Any
) -> None:
    agent = make_dead(support.firing("Down"))
    (dead,) = agent.entries("failed")
    assert resend(agent) == [(dead.id, "")]
    agent.settle("delivered", 1)
    assert hook.ids() == [dead.id, dead.id]
    # Asked twice, it is sent once.
    assert resend(agent) == []
    assert resend(agent, [dead.id]) == [(dead.id, "it was delivered")]
    connection = sqlite3.connect(agent.path)
    (told,) = connection.execute("SELECT told FROM notify_log").fetchone()
    assert len(json.loads(told)) == 1
    assert connection.execute("SELECT count(*) FROM notify_resent").fetchone() == (0,)
    connection.close()
    assert heard(hook) == [("Down", "firing", False), ("Down", "firing", True)]


def test_who_was_told_by_a_message_that_was_sent_again_hears_the_end(
    hook: Any, make_dead: Any, make_agent: Any, config: Any, support: Any
) -> None:
    agent = make_dead(support.firing("Down"))
    resend(agent)
    agent.settle("delivered", 1)
    agent.delivery.stop(support.PATIENCE)
    after = make_agent(config)
    after.fire(support.resolved(support.firing("Down")))
    after.settle("delivered", 2)
    assert [status for _, status, _ in heard(hook)] == ["firing", "firing", "resolved"]


def test_what_has_ended_since_it_says_has_ended(
    hook: Any, make_dead: Any, make_agent: Any, config: Any, support: Any
) -> None:
    agent = make_dead(support.firing("Down"))
    (dead,) = agent.entries("failed")
    agent.delivery.stop(support.PATIENCE)
    after = make_agent(config)
    after.fire(support.resolved(support.firing("Down")))
    connection = sqlite3.connect(agent.path, isolation_level=None)
    while connection.execute("SELECT count(*) FROM notify_alert").fetchone() != (0,):
        pass
    connection.close()
    assert resend(after) == [(dead.id, "")]
    after.settle("delivered", 1)
    assert heard(hook)[1:] == [("Down", "resolved", True)]
    # Nobody knows any more when it ended.
    (entry,) = after.entries("delivered")
    assert entry.alerts[0].resolved_at_ms == 1_700_000_900_000


def test_what_ended_while_it_was_refused_is_news_when_it_fires_again(
    hook: Any, make_agent: Any, config: Any, support: Any
) -> None:
    hook.replies = [support.status(400)]
    agent, alert = make_agent(config), support.firing("Down")
    agent.fire(alert)
    agent.settle("failed", 1)
    agent.fire(support.resolved(alert))
    connection = sqlite3.connect(agent.path, isolation_level=None)
    while connection.execute("SELECT count(*) FROM notify_alert").fetchone() != (0,):
        pass
    connection.close()
    resend(agent)
    agent.settle("delivered", 1)
    agent.fire(replace(alert, fired_at_ms=alert.fired_at_ms + 300_000))
    agent.settle("delivered", 2)
    assert [status for _, status, _ in heard(hook)] == ["firing", "resolved", "firing"]


def test_only_what_can_be_sent_is_and_the_reason_is_given(make_dead: Any, support: Any) -> None:
    agent = make_dead(support.firing("Down"), support.firing("Up"))
    first, second = (entry.id for entry in agent.entries("failed"))
    gone = f"the configuration has no {KEY} any more"
    assert resend(agent, known=()) == [(first, gone), (second, gone)]
    assert resend(agent, ["x" * 32, ""]) == [
        ("x" * 32, "there is no such message"),
        ("", "several messages begin like this"),
    ]
    agent.delivery.stop(support.PATIENCE)
    assert resend(agent, [first[:12]]) == [(first, "")]
    assert resend(agent, [first]) == [(first, "it waits to be sent already")]


def test_an_end_whose_beginning_was_refused_is_not_sent_alone(
    hook: Any, make_agent: Any, config: Any, support: Any
) -> None:
    hook.always = support.status(503)
    agent = make_agent(config)
    agent.fire(support.firing("Down"))
    hook.wait_for(1)
    agent.fire(support.resolved(support.firing("Down")))
    agent.settle("pending", 2)
    hook.always = support.status(400)
    agent.settle("failed", 2)
    beginning, end = agent.entries("failed")
    hook.always = support.status(200)
    ((_, why),) = resend(agent, [end.id])
    assert why.startswith("nobody was told of what it says is over")
    assert resend(agent) == [(beginning.id, "")]
    agent.settle("delivered", 1)
    (entry,) = agent.entries("delivered")
    # When it ended is known from the message that told of it.
    assert [one.resolved_at_ms for one in entry.alerts] == [1_700_000_120_000]


def test_a_kill_after_it_was_asked_for_loses_nothing(
    hook: Any, make_dead: Any, make_agent: Any, config: Any, support: Any
) -> None:
    agent = make_dead(support.firing("Down"))
    agent.delivery.stop(support.PATIENCE)
    pid = os.fork()
    if pid == 0:
        try:
            outbox = Outbox(agent.path)
            outbox.resend(None, (KEY,), 1_700_000_900_000)
            os._exit(9)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    after = make_agent(config)
    after.settle("delivered", 1)
    after.fire(support.resolved(support.firing("Down")))
    after.settle("delivered", 2)
    assert [status for _, status, _ in heard(hook)] == ["firing", "firing", "resolved"]


def test_a_kill_in_the_middle_has_done_nothing(
    make_dead: Any, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_dead(support.firing("Down"), support.firing("Up"))
    agent.delivery.stop(support.PATIENCE)
    pid = os.fork()
    if pid == 0:
        try:
            changed: list[object] = []

            def dies_at_the_second(*_: object) -> str:
                changed.append(None)
                if len(changed) == 2:
                    os._exit(9)
                return ""

            monkeypatch.setattr("notifiers.dead_letters._why_not", dies_at_the_second)
            Outbox(agent.path).resend(None, (KEY,), 1_700_000_900_000)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert len(agent.entries("failed")) == 2
    connection = sqlite3.connect(agent.path)
    assert connection.execute("SELECT count(*) FROM notify_resent").fetchone() == (0,)
    connection.close()


def post(agent: Any, body: str, content_type: str = JSON) -> Any:
    handle = agent.delivery.mounted(tuple)[NOTIFY]
    return handle(Request("POST", RESEND, body=body.encode(), content_type=content_type))


def test_the_api_sends_again_and_shows_what_became_of_it(make_dead: Any, support: Any) -> None:
    agent = make_dead(support.firing("Down"))
    (dead,) = agent.entries("failed")
    answer = json.loads(post(agent, json.dumps({"ids": [dead.id]})).body)
    assert answer["data"] == [{"id": dead.id, "integration": KEY, "refused": ""}]
    agent.settle("delivered", 1)
    handle = agent.delivery.mounted(tuple)[NOTIFY]
    asked = Request("GET", MESSAGES, {"id": (dead.id, "none")})
    (row,) = json.loads(handle(asked).body)["data"]
    assert (row["id"], row["state"], row["attempts"]) == (dead.id, "delivered", 2)


@pytest.mark.parametrize(
    ("body", "content_type", "said"),
    [
        ("{}", JSON, "either 'ids' or 'all'"),
        ('{"ids": ["a"], "all": true}', JSON, "either 'ids' or 'all'"),
        ('{"ids": [1]}', JSON, "ids.0: Input should be a valid string"),
        ('{"id": []}', JSON, "id: Extra inputs are not permitted"),
        ("[", JSON, "Invalid JSON"),
        ('{"all": true}', "text/plain", f"a body must be {JSON}"),
    ],
)
def test_a_request_that_is_none_is_refused(
    make_agent: Any, config: Any, body: str, content_type: str, said: str
) -> None:
    with pytest.raises(ApiError, match=re.escape(said)):
        post(make_agent(config, start=False), body, content_type)


def test_the_command_writes_it_down_where_no_agent_runs(
    hook: Any,
    make_dead: Any,
    make_agent: Any,
    config: Any,
    support: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = make_dead(support.firing("Down"))
    (dead,) = agent.entries("failed")
    agent.delivery.stop(support.PATIENCE)
    written = tmp_path / "stallwatch.yaml"
    written.write_text(
        "listen: 127.0.0.1:1\n"
        f"receivers: [{{name: ops, webhook_configs: [{{url: '{hook.url}'}}]}}]\n"
    )
    command = ["notify", "dead", "--config", str(written), "--state", str(tmp_path)]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(dead.id[:12])
    assert main([*command, "--resend", dead.id[:12], "nothing"]) == 1
    said = capsys.readouterr()
    assert said.out == (
        f"waits      {dead.id}  {KEY}\nnot sent   nothing: there is no such message\n"
    )
    assert "the one that runs on" in said.err
    make_agent(config).settle("delivered", 1)
    assert main([*command, "--resend", "--all"]) == 0
    assert capsys.readouterr().out == "nothing is dead\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dead", "--resend"], "which messages? Name ids, or --all"),
        (["dead", "--resend", "--all", "12"], "which messages? Name ids, or --all"),
        (["dead", "--all"], "--all is for --resend"),
        (["pending", "--resend", "--all"], "--resend and --all are for 'dead'"),
    ],
)
def test_the_command_says_what_it_lacks(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", *words]) == 2
    assert said in capsys.readouterr().err
