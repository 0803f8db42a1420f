"""What an agent says of its alerts, its recording says too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import requests

from engine.alerts.fingerprint import fingerprint
from engine.cli.main import main
from engine.flush import Flush
from engine.http.server import serve
from engine.labels import Labels
from engine.pipeline.view import AgentView
from tests.engine.pipeline.test_live_equals_dry_run import START, Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.http.server import HttpServer

STEPS = 400
# From this step on rank 3 takes half as long again.
SLOW = 370
RANKS = tuple(Labels.of(__name__="step_seconds", task_id="t", rank=rank) for rank in "0123")
RULES = """
groups:
  - name: ranks
    rules:
      - {record: rank:straggler_score, expr: straggler_score by (task_id) (step_seconds)}
      - alert: Straggler
        expr: straggler_slowdown by (task_id) (step_seconds) > 1.2 and rank:straggler_score > 3
        for: 1m
      - alert: Unusual
        expr: abs(robust_zscore_over_time(step_seconds{rank="3"}[20m])) > 5
        keep_firing_for: 30m
      - alert: Odd
        expr: anomaly_score(sum by (task_id) (step_seconds)) >= 0.7
        keep_firing_for: 30m
  - name: later
    interval: 1m
    query_offset: 10s
    rules:
      - alert: Shifted
        expr: distribution_shift(step_seconds[2m], step_seconds[20m] offset 4m) > 0.9
        labels: {team: 'of {{ $labels.rank }}'}
"""


def drive(bench: Bench) -> None:
    random = np.random.default_rng(5)
    for step in range(STEPS):
        second = START + 10 * step
        values = 1.0 + random.normal(0.0, 0.01, len(RANKS))
        values[3] *= 1.5 if step >= SLOW else 1.0
        bench.now = second + 0.5
        bench.flush(Flush(second * 1000, RANKS, values))
        bench.turn()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(tmp_path_factory.mktemp("agent"), RULES)
    drive(made)
    return made


@pytest.fixture
def server(bench: Bench) -> Iterator[HttpServer]:
    running = serve("127.0.0.1:0", AgentView(bench.agent))
    yield running
    running.stop()


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def ask(*args: str) -> Any:
        assert main(["explain", *args, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize("alert", ["Straggler", "Unusual", "Odd", "Shifted"])
def test_an_agent_and_its_recording_say_the_same(
    alert: str, bench: Bench, server: HttpServer, explained: Callable[..., Any]
) -> None:
    live = explained(alert, "--url", server.url)
    folder = bench.folder / "state" / "recording"
    rules = str(bench.folder / "rules.yaml")
    at = str(START + 10 * STEPS)
    recorded = explained(alert, "--data", str(folder), "--rules", rules, "--at", at)
    assert live == recorded
    assert all(part["holds"] and part["values"] for part in live["parts"])


def test_an_alert_that_does_not_fire_any_more_is_said_so(server: HttpServer) -> None:
    answer = requests.get(f"{server.url}/api/v1/explain?fingerprint=0", timeout=60)
    assert answer.status_code == 404
    assert answer.json()["error"] == "stallwatch: this alert does not fire any more"


def test_the_last_hour_comes_where_it_is_asked_for(bench: Bench, server: HttpServer) -> None:
    alert = next(one for one in AgentView(bench.agent).alerts() if "Straggler" in str(one.labels))
    asked = {"fingerprint": fingerprint(alert.labels), "panels": "true"}
    answer = requests.get(f"{server.url}/api/v1/explain", params=asked, timeout=60)
    (panel,) = answer.json()["data"]["panels"]
    assert panel["expr"] == "step_seconds"
    assert panel["said"].startswith("straggler_slowdown is 1.4")
    assert " is number 1 of 4; expected: up to 1.2" in panel["said"]
    assert [line["is_own"] for line in panel["lines"]] == [True, False, False, False]
    assert panel["lines"][0]["labels"] == {"rank": "3", "task_id": "t"}
    low, high = panel["expected"]
    assert low is None
    assert 1.1 < high < 1.3


def test_an_alert_of_which_there_is_none_leads_to_those_there_are(
    server: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "Stragler", "--url", server.url]) == 2
    said = capsys.readouterr().err
    assert "there is no alert named 'Stragler', did you mean 'Straggler'?" in said
    assert "      Straggler rank=3 task_id=t  since " in said


def test_asking_moves_nothing_that_rules_have_learnt(
    bench: Bench, server: HttpServer, explained: Callable[..., Any]
) -> None:
    before = {text: fold.folded_ms for text, fold in bench.agent.baselines.folds.by_text.items()}
    states = [
        element.model.state()
        for fold in bench.agent.baselines.folds.by_text.values()
        for element in fold.elements.values()
    ]
    explained("Odd", "--url", server.url)
    after = bench.agent.baselines.folds.by_text
    assert {text: fold.folded_ms for text, fold in after.items()} == before
    assert states == [
        element.model.state() for fold in after.values() for element in fold.elements.values()
    ]
