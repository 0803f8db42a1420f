"""`stallwatch silence` on a server with the delivery's API, and on state.db where none runs."""

from __future__ import annotations

import io
import json
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main
from engine.cli.selection import login_name
from engine.config.model import Config
from engine.http.message import Response
from engine.http.server import serve
from notifiers.api.service import SilenceService
from notifiers.routing.plan import everybody
from notifiers.silences.store import Silences
from notifiers.worker import unix_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.http.message import Handler, Request


class Mounted:
    """The only part of `Sources` that these commands reach."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers

    def mounted(self) -> dict[str, Handler]:
        return self._handlers


def serving(handlers: dict[str, Handler]) -> Any:
    sources: Any = Mounted(handlers)
    return serve("127.0.0.1:0", sources)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The URL of an agent without alerts."""
    service = SilenceService(Config(node="n1"), everybody([]), str(tmp_path / "state.db"), unix_ms)
    server = serving(dict(service.mounted(list)))
    yield server.url
    server.stop()
    service.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str) -> tuple[int, str, str]:
        status = main(["silence", *words])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration whose agent does not run and never did."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"listen: 127.0.0.1:{port}\nstate_dir: {tmp_path}\n")
    return str(path)


def test_a_silence_is_added_listed_and_ended(run: Any, agent: str) -> None:
    words = ["Slow", 'rank=~"1|2"', "--comment", "repair", "--author", "jane", "node!=n7"]
    status, identity, _ = run("add", *words, "--url", agent)
    assert status == 0
    status, listed, _ = run("list", "--url", agent)
    assert status == 0
    assert listed.startswith(f"{identity.strip()}  active until 2")
    assert listed.endswith('  {alertname="Slow",rank=~"1|2",node!="n7"}  jane: repair\n')
    assert run("list", "rank=2", "--url", agent)[1] == "no silences\n"
    assert run("list", "Slow", "--url", agent)[1] == listed
    assert run("expire", identity.strip(), "--url", agent) == (0, "", "")
    assert run("list", "--url", agent)[1] == "no silences\n"
    assert "  expired since 2" in run("list", "--expired", "--url", agent)[1]


def test_duration_start_and_end_are_told(run: Any, agent: str) -> None:
    start = ["--start", "2100-01-01T00:00:00Z"]
    run("add", "a=b", "--comment", "c", *start, "--duration", "90m", "--url", agent)
    run("add", "a=c", "--comment", "c", *start, "--end", "2100-01-01T00:00:01Z", "--url", agent)
    _, text, _ = run("list", "--format", "json", "--url", agent)
    times = {(one["startsAt"], one["endsAt"]) for one in json.loads(text)}
    assert times == {
        ("2100-01-01T00:00:00.000Z", "2100-01-01T01:30:00.000Z"),
        ("2100-01-01T00:00:00.000Z", "2100-01-01T00:00:01.000Z"),
    }
    assert "  pending from 2100-01-01T00:00:00Z until 2" in run("list", "--url", agent)[1]


def test_without_an_author_the_login_name_is_told(
    run: Any, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "jane")
    _, text, _ = run("add", "a=b", "--comment", "c", "--format", "json", "--url", agent)
    identity = json.loads(text)["silenceID"]
    _, text, _ = run("list", "--format", "json", "--url", agent)
    assert [(one["id"], one["createdBy"]) for one in json.loads(text)] == [(identity, "jane")]
    monkeypatch.delenv("SUDO_USER")

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert login_name().startswith("uid ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "--comment", "c"], "for which alerts?"),
        (["add", "a=b"], "--comment is missing"),
        (["add", "a=", "--comment", "c"], "must not match the empty string"),
        (["add", 'a=~"("', "--comment", "c"], "bad matcher 'a=~\"(\"'"),
        (["add", "a=b", "--comment", "c", "--duration", "soon"], "--duration"),
        (["add", "a=b", "--comment", "c", "--duration", "1h", "--end", "1"], "not both"),
        (["add", "a=b", "--comment", "c", "--end", "2001-01-01T00:00:00Z"], "in the past"),
        (["add", "a=b", "--comment", "c", "--end", "noon"], "--end: cannot parse"),
        (
            ["add", "a=b", "--comment", "c", "--start", "4102444800", "--end", "4102444799"],
            "before it starts",
        ),
        (["expire"], "which?"),
        (["import", "a", "b"], "one file"),
        (["list", "--url", "localhost:1"], "is no URL"),
        (["list", "--url", "http://127.0.0.1:1"], "no agent at http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error(
    words: list[str], message: str, run: Any, config: str
) -> None:
    status, out, err = run(*words, "--config", config)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_unknown_ids_are_named_and_the_others_ended(run: Any, agent: str) -> None:
    identity = run("add", "a=b", "--comment", "c", "--url", agent)[1].strip()
    unknown = "0b0d1f3a-0f62-4a68-8f0f-27c4a44a6a3e"
    status, _, err = run("expire", unknown, identity, "--url", agent)
    assert status == 1
    assert f"there is no silence {unknown}" in err
    assert run("list", "--url", agent)[1] == "no silences\n"
    status, _, err = run("expire", "nonsense", "--url", agent)
    assert status == 2
    assert "must be of type uuid" in err


def test_where_no_agent_runs_state_db_is_used_and_that_is_said(
    run: Any, config: str, tmp_path: Path
) -> None:
    status, _, err = run("add", "a=b", "--comment", "c", "--config", config)
    assert status == 2
    assert f"there is no {tmp_path / 'state.db'}" in err
    store = Silences(str(tmp_path / "state.db"))
    status, identity, err = run("add", "a=b", "--comment", "c", "--config", config)
    assert status == 0
    assert f"using {tmp_path / 'state.db'}" in err
    assert store.silencing({"a": "b"}, unix_ms()) == (identity.strip(),)
    assert identity.strip() in run("list", "--config", config)[1]
    assert run("expire", identity.strip(), "--config", config)[0] == 0
    assert store.silencing({"a": "b"}, unix_ms()) == ()
    assert run("expire", "x", "--config", config)[0] == 1
    store.close()


def test_a_state_db_that_is_none_is_one_clear_error(run: Any, config: str, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("this is no database, however long it is")
    status, _, err = run("list", "--config", config)
    assert status == 2
    assert "state.db: cannot be used: file is not a database" in err


def test_what_amtool_wrote_is_imported_without_what_has_expired(
    run: Any, agent: str, tmp_path: Path
) -> None:
    kept = run("add", "a=b", 'c!~"d|e"', "--comment", "Zoë's", "--url", agent)[1].strip()
    text = run("list", "--format", "json", "--url", agent)[1]
    ended = json.loads(text)[0] | {
        "endsAt": "2001-01-01T00:00:00Z",
        "startsAt": "2000-01-01T00:00:00Z",
    }
    file = tmp_path / "silences.json"
    file.write_text(json.dumps([*json.loads(text), ended]))
    run("expire", kept, "--url", agent)
    status, out, _ = run("import", str(file), "--url", agent)
    assert status == 0
    identity, count = out.splitlines()
    assert count == "1 added, 1 had expired, 0 refused"
    assert identity != kept
    (one,) = json.loads(run("list", "--format", "json", "--url", agent)[1])
    assert (one["id"], one["comment"]) == (identity, "Zoë's")
    assert one["matchers"] == json.loads(text)[0]["matchers"]


def test_standard_input_is_imported_too(
    run: Any, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[]")))
    status, out, _ = run("import", "--format", "json", "--url", agent)
    assert status == 0
    assert json.loads(out) == {"silenceIDs": [], "expired": 0, "refused": 0}


TIMES = '"startsAt": "2100-01-01T00:00:00Z", "endsAt": "2100-01-02T00:00:00Z"'
WHO = '"createdBy": "a", "comment": "c"'
WRONG_FILES = [
    ("{", "Invalid JSON"),
    ("{}", "should be a valid array"),
    (f'[{{"matchers": [], {TIMES}, {WHO}}}]', "silence 1: matchers: List should have at least 1"),
    ("[1]", "silence 1: Input should be an object"),
    (
        f'[{{"matchers": [{{"name": "a", "value": "(", "isRegex": true}}], {TIMES}, {WHO}}}]',
        "silence 1: missing )",
    ),
    (
        f'[{{"matchers": [{{"name": "a", "value": "", "isRegex": false}}], {TIMES}, {WHO}}}]',
        "silence 1: invalid silence: at least one matcher must not match the empty string",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_FILES)
def test_a_file_that_holds_no_silences_is_one_clear_error(
    text: str, message: str, run: Any, config: str, tmp_path: Path
) -> None:
    file = tmp_path / "silences.json"
    file.write_text(text)
    status, out, err = run("import", str(file), "--config", config)
    assert (status, out) == (2, "")
    assert message in err
    assert str(file) in err


def test_somebody_else_at_the_agents_address_is_one_clear_error(run: Any) -> None:
    def html(_: Request) -> Response:
        return Response(200, b"<html>", "text/html")

    server = serving({"/api/v2/": html})
    try:
        for words in (["list"], ["add", "a=b", "--comment", "c"]):
            status, _, err = run(*words, "--url", server.url)
            assert status == 2
            assert "does not answer as an agent does" in err
    finally:
        server.stop()
