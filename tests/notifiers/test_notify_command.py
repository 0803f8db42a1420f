"""`stallwatch notify`."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main
from notifiers.dispatch.message import Message
from notifiers.outbox import Outbox, add

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
receivers:
  - name: oncall
    webhook_configs:
      - url: {good}
      - url: {bad}
        timeout: 30s
  - name: mail
    email_configs:
      - to: a@example.com
        from: b@example.com
        smarthost: 127.0.0.1:1
        auth_username: me
        auth_password: s3cret-word
route:
  receiver: oncall
"""


@pytest.fixture
def config(tmp_path: Path, hook: Any) -> str:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(CONFIG.format(good=hook.url, bad="http://127.0.0.1:1/s3cret-word"))
    return str(path)


def test_each_integration_has_a_line_and_one_failure_is_exit_1(
    config: str, hook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "test", "--config", config]) == 1
    out, err = capsys.readouterr()
    place = hook.url.removesuffix("/hook")
    assert out.splitlines() == [
        f"ok      oncall/webhook ({place})",
        "FAILED  oncall/webhook (http://127.0.0.1:1): Connection refused",
        (
            "FAILED  mail/email (a@example.com): Connection error while submitting email to "
            '"127.0.0.1": Connection refused'
        ),
    ]
    assert "s3cret-word" not in out + err
    (alert,) = json.loads(hook.received[0][1])["alerts"]
    assert alert["labels"]["alertname"] == "StallwatchTestAlert"
    assert "Nothing is wrong" in alert["annotations"]["summary"]


def test_one_receiver_may_be_chosen(
    config: str, hook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["notify", "test", "--config", config, "--receiver", "mail", "--format", "json"]
    assert main(command) == 1
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["receiver"], shown["integration"], shown["ok"]) == ("mail", "email", False)
    assert hook.received == []


def test_all_well_is_exit_0(tmp_path: Path, hook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"receivers: [{{name: a, webhook_configs: [{{url: '{hook.url}'}}]}}]\n")
    assert main(["notify", "test", "--config", str(path)]) == 0
    assert capsys.readouterr().out.startswith("ok ")


def test_an_unknown_receiver_and_none_at_all_are_clear_errors(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "test", "--config", config, "--receiver", "nobody"]) == 2
    assert "there is no receiver 'nobody'\n    hint: there is oncall, mail" in (
        capsys.readouterr().err
    )
    empty = tmp_path / "empty.yaml"
    empty.write_text("listen: 127.0.0.1:9466\n")
    assert main(["notify", "test", "--config", str(empty)]) == 2
    assert "no receiver to test" in capsys.readouterr().err


def test_what_waits_and_what_was_given_up_is_listed(
    config: str, make_agent: Any, support: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = support.configured(dead=[("webhook", {"url": "http://127.0.0.1:1/"})])
    agent = make_agent(own)
    agent.fire(support.firing())
    while not agent.sample("stallwatch_notify_retries_total", receiver="dead"):
        agent.rows("pending")
    agent.delivery.stop(support.PATIENCE)
    command = ["notify", "pending", "--config", config, "--state", str(tmp_path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "dead/webhook/0  firing TcpRetransmitSpike torchrun:job42" in shown
    assert "connection (Connection refused)" in shown
    assert main([*command, "--format", "json", "--receiver", "other"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    command[1] = "dead"
    assert main(command) == 0
    assert capsys.readouterr().out == "nothing is dead\n"


def test_thousands_that_wait_for_one_receiver_do_not_hide_another_ones(
    config: str, support: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.db"
    Outbox(str(path)).create()
    with sqlite3.connect(path) as connection:
        alert = support.firing()
        for number in range(1_100):
            key = f"mail/email/{number}"
            add(connection, Message(key, "mail", key, "{}", {}, (alert,), "new alerts added"), 0)
        key = "oncall/webhook/0"
        add(connection, Message("own", "oncall", key, "{}", {}, (alert,), "new alerts added"), 0)
    command = ["notify", "pending", "--config", config, "--state", str(tmp_path)]
    assert main([*command, "--receiver", "oncall"]) == 0
    assert "oncall/webhook/0" in capsys.readouterr().out


def test_a_missing_outbox_is_a_clear_error(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "dead", "--config", config, "--state", str(tmp_path / "none")]) == 2
    assert "there is no outbox at" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_certificate_is_looked_for_beside_the_configuration(
    tmp_path: Path, hook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.pem").touch()
    tls = "{url: 'http://127.0.0.1:1/', http_config: {tls_config: {ca_file: ca.pem}}}"
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"receivers: [{{name: a, webhook_configs: [{tls}]}}]\n")
    assert main(["notify", "test", "--config", str(path)]) == 1
    assert "Connection refused" in capsys.readouterr().out


def test_secrets_may_come_from_the_environment_and_from_files(
    tmp_path: Path, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "t0ken")
    (tmp_path / "url").write_text(f"{hook.url}\n")
    path = tmp_path / "stallwatch.yaml"
    entry = "{url_file: url, http_config: {bearer_token: 'env:HOOK_TOKEN'}}"
    path.write_text(f"receivers: [{{name: a, webhook_configs: [{entry}]}}]\n")
    assert main(["notify", "test", "--config", str(path)]) == 0
    assert hook.received[0][0]["Authorization"] == "Bearer t0ken"


BROKEN = [
    ("webhook_configs: [{url: 'ftp://h/s3cret-word'}]", "expected a URL such as"),
    ("webhook_configs: [{url: 'http://h/', timeout: never}]", "not a valid duration"),
    ("webhook_configs: [{uri: 'http://h/s3cret-word'}]", "uri"),
    ("email_configs: [{to: a@b.c, from: d@e.f, smarthost: h}]", "expected host:port"),
    ("email_configs: [{to: a@b.c, smarthost: 'h:25'}]", "from"),
    ("slack_configs: [{token: s3cret-word}]", "a token needs a channel"),
    ("apprise_configs: [{url: 's3cret-word://x'}]", "apprise cannot use this URL"),
]


@pytest.mark.parametrize(("entry", "message"), BROKEN)
def test_a_broken_receiver_is_shown_at_its_place_without_its_secrets(
    entry: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"receivers:\n  - name: a\n    {entry}\n")
    assert main(["notify", "test", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}:3:" in said
    assert message in said
    assert "s3cret-word" not in said
