"""`stallwatch explain`: the words beside the numbers, the picture, and what cannot be explained."""

from __future__ import annotations

import builtins
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

START = 1_700_000_000
RULES = """\
groups:
  - name: g
    interval: 10s
    rules:
      - record: rank:straggler_score
        expr: straggler_score by (task_id) (step_time_seconds)
      - alert: StragglingRank
        expr: |
          straggler_slowdown by (task_id) (step_time_seconds) > 1.2
          and
          count_over_time((rank:straggler_score > 3)[1m:10s]) >= 3
        for: 20s
        labels: {tier: "2"}
        annotations: {summary: 'Rank {{ $labels.rank }} is slow'}
      - alert: Longer
        expr: step_time_seconds > 4
      - alert: Held
        expr: step_time_seconds > 2.9
        keep_firing_for: 10m
      - alert: Resolving
        expr: step_time_seconds{rank="0"} * (time() < bool 1700000030) > 0
        annotations: {stallwatch_resolve_expr: 'step_time_seconds{rank="0"} > 1'}
      - alert: Quiet
        expr: step_time_seconds < 0
"""


ACTIVE = (
    b'{"status": "success", "data": {"alerts": [{"labels": {"alertname": "Longer"},'
    b' "activeAt": "2023-11-14T22:15:00Z"}]}}'
)


@pytest.fixture
def answer_by_path() -> Iterator[Callable[..., str]]:
    """An HTTP server that says this at that path; gives its URL."""
    servers: list[HTTPServer] = []

    def start(answers: dict[str, bytes]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = answers[self.path.partition("?")[0]]
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """Four ranks whose steps take 2 to 3 seconds; from second 100 on rank 3 takes 5."""
    usual = {"0": 2.0, "1": 2.5, "2": 3.0, "3": 2.5}
    rows = ["timestamp,value,__name__,task_id,rank"]
    for second in range(0, 180, 10):
        for rank, seconds in usual.items():
            value = 5.0 if rank == "3" and second >= 100 else seconds
            rows.append(f"{(START + second) * 1000},{value},step_time_seconds,t,{rank}")
    path = tmp_path / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def explain(rules_file: Path, data_file: Path) -> Callable[..., int]:
    def run(*args: str) -> int:
        return main(["explain", *args, "--data", str(data_file), "--rules", str(rules_file)])

    return run


def test_a_straggler_is_explained_by_its_peers(
    explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("StragglingRank") == 0
    # The others of rank 3 are 2, 2.5 and 3: median 2.5, quartiles 2.25 and 2.75. 1.2 times the
    # median is 3. A spread is 0.25 / 0.67449 = 0.37065, three of them from the median lead to
    # 1.38805 and 3.61195; the score is (5 - 2.5) / 0.37065 = 6.7449.
    assert capsys.readouterr().out == (
        "StragglingRank  firing, value 2\n"
        "  rank=3, task_id=t, tier=2\n"
        "  Rank 3 is slow\n"
        "  active since 2023-11-14T22:15:20Z, fired at 2023-11-14T22:15:40Z; values as of"
        " 2023-11-14T22:16:10Z\n"
        "\n"
        "straggler_slowdown by (task_id) (step_time_seconds) > 1.2\n"
        "  is 2, more than 1.2\n"
        "  straggler_slowdown: 2\n"
        "    its value 5 is the largest of 4; the others have median 2.5, quartiles 2.25 and 2.75\n"
        "    expected: up to 3\n"
        "    peers: rank=2 3; rank=1 2.5; rank=0 2\n"
        "\n"
        "and count_over_time((rank:straggler_score > 3)[1m:10s]) >= 3\n"
        "  is 6, at least 3\n"
        "  rank:straggler_score, straggler_score: 6.7449\n"
        "    its value 5 is the largest of 4; the others have median 2.5, quartiles 2.25 and 2.75\n"
        "    expected: 1.38805 to 3.61195\n"
        "    peers: rank=2 3; rank=1 2.5; rank=0 2\n"
    )


def test_json_has_the_same(explain: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert explain("StragglingRank", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "panels" not in found
    assert (found["alertname"], found["value"], found["for"]) == ("StragglingRank", 2.0, "20s")
    assert (found["active_at"], found["fired_at"]) == (START + 120, START + 140)
    slowdown, count = found["parts"]
    assert slowdown["values"] == [
        {"labels": {"rank": "3", "task_id": "t"}, "value": 2.0, "threshold": 1.2}
    ]
    (told,) = slowdown["statistics"]
    assert (told["place"], told["size"], told["median"]) == (1, 4, 2.5)
    assert told["expected"] == [None, 3.0]
    assert [(one["labels"]["rank"], one["value"]) for one in told["peers"]] == [
        ("2", 3.0),
        ("1", 2.5),
        ("0", 2.0),
    ]
    assert (count["joined"], count["op"], count["holds"]) == ("and", ">=", True)


def test_an_expression_without_a_statistic_has_value_and_threshold(
    explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain("Longer", "--at", str(START + 120)) == 0
    said = capsys.readouterr().out
    assert said.endswith("\n\nstep_time_seconds > 4\n  is 5, more than 4\n")
    assert "values as of 2023-11-14T22:15:20Z" in said


@pytest.mark.parametrize(
    ("alert", "said"),
    [
        # Rank 2 takes 3 seconds all the time; nothing holds its alert but its expression.
        (["Held", "rank=2"], "fired at 2023-11-14T22:13:20Z; values as of"),
        (["Resolving"], "held by stallwatch_resolve_expr; values as of"),
    ],
)
def test_what_keeps_an_alert_firing_is_said(
    alert: list[str],
    said: str,
    explain: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain(*alert) == 0
    assert said in capsys.readouterr().out


def test_an_alert_that_is_held_is_explained_by_when_it_last_held(
    data_file: Path, explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = data_file.read_text().splitlines()
    late = f"{(START + 120) * 1000},"
    kept = [
        line.replace(",3.0,", ",1.0,") if "," in line and line >= late else line for line in lines
    ]
    data_file.write_text("\n".join(kept) + "\n")
    assert explain("Held", "rank=2") == 0
    said = capsys.readouterr().out
    assert "held by keep_firing_for; values as of 2023-11-14T22:15:10Z" in said
    assert said.endswith("step_time_seconds > 2.9\n  is 3, more than 2.9\n")


def test_a_picture_is_drawn_where_it_is_asked_for(
    explain: Callable[..., int], tmp_path: Path
) -> None:
    path = tmp_path / "why.png"
    assert explain("StragglingRank", "--picture", str(path)) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_an_error(
    explain: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere" / "why.png"
    assert explain("Longer", "--picture", str(path)) == 2
    assert f"cannot write {path}: No such file or directory" in capsys.readouterr().err


def test_without_matplotlib_the_package_is_named(
    explain: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(f"No module named '{name}'")
        return usual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert explain("Longer", "--picture", "why.png") == 2
    assert capsys.readouterr().err == (
        "stallwatch explain: --picture needs matplotlib: No module named 'matplotlib'\n"
        "    hint: pip install 'stallwatch[pictures]', or 'matplotlib>=3.8'\n"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["Straggling"], "there is no alert named 'Straggling', did you mean 'StragglingRank'?"),
        (["Quiet"], "'Quiet' does not fire in these data"),
        (["StragglingRank", "--at", str(START + 130)], "does not fire then"),
        (["Longer", "rank=1"], "no alert has these labels"),
        (['rank=~"3"'], "3 alerts are meant"),
        (["Longer", "--at", "1"], "--at is before the first sample"),
        (["Longer", "--at", "noon"], '--at: cannot parse "noon"'),
        (["a=b=c", "x{"], "explain: "),
    ],
)
def test_what_cannot_be_explained_says_what_there_is(
    args: list[str], said: str, explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*args) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_the_alerts_to_choose_from_are_listed(
    explain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain('rank=~"3"') == 2
    assert capsys.readouterr().err == (
        "stallwatch explain: 3 alerts are meant\n"
        "    hint: choose one by labels:\n"
        "      Held rank=3 task_id=t  since 2023-11-14T22:15:00Z\n"
        "      Longer rank=3 task_id=t  since 2023-11-14T22:15:00Z\n"
        "      StragglingRank rank=3 task_id=t tier=2  since 2023-11-14T22:15:40Z\n"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--data", "x.csv"], "--data needs --rules"),
        (["--at", "1"], "--rules and --at go with --data"),
        (["--rules", "r.yaml"], "--rules and --at go with --data"),
        (["--data", "d", "--rules", "r", "--url", "http://a"], "exclude each other"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "Longer", *args]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"<html>", b'{"status": "success", "data": {}}', b"[]"])
def test_an_agent_that_knows_no_explanations_is_one_clear_error(
    answer: bytes, answer_by_path: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = answer_by_path({"/api/v1/alerts": ACTIVE, "/api/v1/explain": answer})
    assert main(["explain", "Longer", "--url", url]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"stallwatch: {url} does not answer as an agent does\n")


def test_what_the_agent_says_is_wrong_is_said(
    answer_by_path: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    gone = b'{"status": "error", "error": "stallwatch: this alert does not fire any more"}'
    url = answer_by_path({"/api/v1/alerts": ACTIVE, "/api/v1/explain": gone})
    assert main(["explain", "Longer", "--url", url]) == 2
    assert capsys.readouterr().err == "stallwatch: this alert does not fire any more\n"
