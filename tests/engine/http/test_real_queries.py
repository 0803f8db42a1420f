"""The API over the real store, parser and evaluator."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import requests

from engine.flush import Flush
from engine.labels import Labels
from engine.promql.engine import evaluate
from engine.store import Store
from rules.promql.parser import parse

if TYPE_CHECKING:
    from engine.http.server import HttpServer

TIMEOUT = 60
START = 1_700_000_000


@pytest.fixture
def live(server: HttpServer, sources: Any) -> HttpServer:
    """A counter of two ranks that grows by 1 and 2 a second, sampled each 10 s for 5 minutes."""
    store = Store()
    names = tuple(Labels.of(__name__="tcp_retrans_total", rank=rank) for rank in "01")
    for step in range(31):
        values = np.array([10.0 * step, 20.0 * step])
        store.append(Flush((START + 10 * step) * 1000, names, values))
    sources.answer = lambda text, axis: evaluate(parse(text), axis, store)
    return server


def ask(live: HttpServer, endpoint: str, **parameters: Any) -> Any:
    url = f"{live.url}/api/v1/{endpoint}"
    return requests.post(url, data=parameters, timeout=TIMEOUT).json()


def test_an_instant_query_is_evaluated_at_its_time(live: HttpServer) -> None:
    reply = ask(live, "query", query="sum(rate(tcp_retrans_total[1m]))", time=START + 300)
    assert reply["data"] == {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [START + 300, "3"]}],
    }


def test_a_range_query_has_a_value_at_each_step(live: HttpServer) -> None:
    own = {"start": START + 100, "end": START + 120, "step": "10"}
    reply = ask(live, "query_range", query="tcp_retrans_total", **own)
    assert [row["metric"]["rank"] for row in reply["data"]["result"]] == ["0", "1"]
    assert reply["data"]["result"][1]["values"] == [
        [START + 100, "200"],
        [START + 110, "220"],
        [START + 120, "240"],
    ]


def test_a_range_vector_is_an_instant_query_s_matrix(live: HttpServer) -> None:
    reply = ask(live, "query", query='tcp_retrans_total{rank="0"}[20s]', time=START + 100)
    assert reply["data"]["resultType"] == "matrix"
    assert reply["data"]["result"][0]["values"] == [[START + 90, "90"], [START + 100, "100"]]


def test_what_does_not_parse_is_shown_at_its_place(live: HttpServer) -> None:
    reply = ask(live, "query", query="sum(rate(tcp_retrans_total[5m])")
    assert reply["errorType"] == "bad_data"
    assert 'invalid parameter "query": 1:' in reply["error"]
    assert "parse error: " in reply["error"]


def test_what_parses_and_cannot_be_evaluated_is_an_execution_error(live: HttpServer) -> None:
    url = f"{live.url}/api/v1/query"
    expression = "tcp_retrans_total * on() tcp_retrans_total"
    form = {"query": expression, "time": str(START + 100)}
    reply = requests.post(url, data=form, timeout=TIMEOUT)
    assert reply.status_code == 422
    assert reply.json()["errorType"] == "execution"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_queries_a_range(live: HttpServer) -> None:
    command = ["promtool", "query", "range", f"--start={START}", f"--end={START + 20}"]
    done = subprocess.run(
        [*command, "--step=10s", live.url, "sum(tcp_retrans_total)"],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" @")[0] for line in lines[1:4]] == ["0", "30", "60"]
