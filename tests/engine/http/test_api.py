"""The answers, over a real socket."""

from __future__ import annotations

import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import requests

from engine.alerts.alert import Suppression
from engine.http.application import Application
from engine.http.message import Request
from engine.http.queries import Queries
from engine.labels import Labels
from engine.promql.value import Axis, Result, String
from engine.series import Series

if TYPE_CHECKING:
    from engine.http.server import HttpServer

TIMEOUT = 60


def get(server: HttpServer, path: str, **parameters: Any) -> requests.Response:
    return requests.get(f"{server.url}{path}", params=parameters, timeout=TIMEOUT)


def test_an_instant_query_answers_in_prometheus_envelope(server: HttpServer) -> None:
    reply = get(server, "/api/v1/query", query="up", time="1700000000.5")
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "application/json"
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert reply.json() == {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [
                {"metric": {"__name__": "up", "node": "a"}, "value": [1700000000.5, "1"]},
                {"metric": {"__name__": "up", "node": "b"}, "value": [1700000000.5, "1"]},
            ],
        },
        "warnings": ["w"],
        "infos": ["i"],
    }


def test_a_range_query_may_be_posted_as_a_form(server: HttpServer) -> None:
    form = {"query": "2", "start": "2023-11-14T22:13:20Z", "end": "1700000010", "step": "10s"}
    reply = requests.post(f"{server.url}/api/v1/query_range", data=form, timeout=TIMEOUT)
    assert reply.json()["data"] == {
        "resultType": "matrix",
        "result": [{"metric": {}, "values": [[1700000000, "2"], [1700000010, "2"]]}],
    }


def test_limit_cuts_the_result_and_says_so(server: HttpServer) -> None:
    reply = get(server, "/api/v1/query", query="up", limit="1").json()
    assert len(reply["data"]["result"]) == 1
    assert reply["warnings"] == ["w", "results truncated due to limit"]


RANGE = {"query": "up", "start": "0", "end": "10", "step": "1"}
BAD = [
    ("query", {"query": "up +"}, '"query": 1:5: parse error: unexpected end of input'),
    ("query", {"query": "up", "time": "soon"}, '"time": cannot parse "soon" to a valid timestamp'),
    ("query", {"query": "up", "timeout": "x"}, '"timeout": cannot parse "x" to a valid duration'),
    ("query", {"query": "up", "limit": "-1"}, '"limit": must be a number that is not negative'),
    ("query", {"query": "x" * 100_001}, '"query": longer than 100000 characters'),
    ("query_range", RANGE | {"start": ""}, '"start": cannot parse "" to a valid timestamp'),
    ("query_range", RANGE | {"end": "-1"}, "end timestamp must not be before start time"),
    ("query_range", RANGE | {"step": "0"}, "zero or negative query resolution step"),
    ("query_range", RANGE | {"step": "-5"}, "zero or negative query resolution step"),
    ("query_range", RANGE | {"step": "1e400"}, 'cannot parse "1e400" to a valid duration'),
    ("query_range", RANGE | {"step": "9999999999y"}, "to a valid duration"),
    ("query_range", RANGE | {"end": "12000"}, "exceeded maximum resolution of 11,000 points"),
    ("series", {}, "no match[] parameter provided"),
    ("series", {"match[]": "rate(x[5m])"}, '"rate(x[5m])" is not a series selector'),
    ("series", {"match[]": "{"}, '"match[]": 1:'),
    ("labels", {"start": "2", "end": "1"}, "end timestamp must not be before start timestamp"),
    ("rules", {"type": "magic"}, 'not supported value "magic"'),
    ("rules", {"exclude_alerts": "perhaps"}, '"perhaps" is neither true nor false'),
]


@pytest.mark.parametrize(("endpoint", "parameters", "message"), BAD)
def test_bad_parameters_are_named(
    server: HttpServer, endpoint: str, parameters: dict[str, str], message: str
) -> None:
    url = f"{server.url}/api/v1/{endpoint}"
    if endpoint == "rules":
        reply = requests.get(url, params=parameters, timeout=TIMEOUT)
    else:
        reply = requests.post(url, data=parameters, timeout=TIMEOUT)
    assert reply.status_code == 400
    assert reply.json()["status"] == "error"
    assert reply.json()["errorType"] == "bad_data"
    assert message in reply.json()["error"]


def test_a_range_query_of_a_string_is_bad_data(sources: Any) -> None:
    sources.answer = lambda _text, _axis: Result(String("x"))
    parameters = {name: (value,) for name, value in RANGE.items()}
    reply = Application(sources).handle(Request("GET", "/api/v1/query_range", parameters))
    assert reply.status == 400
    assert b"must be Scalar or instant Vector" in reply.body


def test_a_fault_of_ours_is_an_answer_without_a_stack_trace(
    server: HttpServer, sources: Any
) -> None:
    def broken(_text: str, _axis: Axis) -> Result:
        raise ZeroDivisionError("secret detail")

    sources.answer = broken
    reply = get(server, "/api/v1/query", query="up")
    assert reply.status_code == 500
    assert reply.json()["errorType"] == "internal"
    assert "secret detail" not in reply.text


def test_a_query_waits_its_turn_and_gives_up_after_its_timeout(sources: Any) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(_text: str, _axis: Axis) -> Result:
        inside.set()
        leave.wait(TIMEOUT)
        return Result(String("x"))

    sources.answer = slow
    application = Application(sources)
    application._routes["/api/v1/query"] = (
        frozenset({"GET"}),
        Queries(sources, concurrency=1).instant,
    )
    request = Request("GET", "/api/v1/query", {"query": ("up",), "timeout": ("10ms",)})
    first = threading.Thread(target=application.handle, args=(request,))
    first.start()
    assert inside.wait(TIMEOUT)
    reply = application.handle(request)
    leave.set()
    first.join(TIMEOUT)
    assert reply.status == 503
    assert b'"errorType":"timeout"' in reply.body


def test_alerts_carry_their_evidence(server: HttpServer) -> None:
    (alert,) = get(server, "/api/v1/alerts").json()["data"]["alerts"]
    assert alert == {
        "labels": {"alertname": "TcpRetransmitSpike", "task_id": "torchrun:job42", "tier": "1"},
        "annotations": {"summary": "many"},
        "state": "firing",
        "activeAt": "2023-11-14T22:13:20Z",
        "firedAt": "2023-11-14T22:14:20Z",
        "value": "1.5e+00",
        "evidence": [
            {"rank": "0", "pid": 7, "comm": "python", "dst": "10.0.0.2", "retransmits": 12}
        ],
    }


def test_alerts_say_what_keeps_them_back(server: HttpServer, sources: Any) -> None:
    sources.suppressed = Suppression(silenced_by=("a", "b"), muted_by=("nights",))
    (alert,) = get(server, "/api/v1/alerts").json()["data"]["alerts"]
    assert (alert["silencedBy"], alert["mutedBy"]) == (["a", "b"], ["nights"])
    assert "inhibitedBy" not in alert


def test_rules_are_shown_as_prometheus_shows_them(server: HttpServer) -> None:
    (group,) = get(server, "/api/v1/rules").json()["data"]["groups"]
    alerting, recording = group.pop("rules")
    assert group == {
        "name": "comm",
        "file": "comm.yaml",
        "interval": 10.0,
        "limit": 0,
        "evaluationTime": 0.5,
        "lastEvaluation": "2023-11-14T22:14:20Z",
    }
    assert len(alerting.pop("alerts")) == 1
    assert alerting == {
        "name": "TcpRetransmitSpike",
        "query": "x > 1",
        "state": "firing",
        "duration": 60.0,
        "keepFiringFor": 0.0,
        "labels": {"tier": "1"},
        "annotations": {"summary": "{{ 1 }}"},
        "health": "ok",
        "evaluationTime": 0.25,
        "lastEvaluation": "2023-11-14T22:14:20Z",
        "type": "alerting",
    }
    assert recording == {
        "name": "job:x:sum",
        "query": "sum(x)",
        "labels": {},
        "health": "err",
        "lastError": "many-to-many matching not allowed",
        "evaluationTime": 0.0,
        "lastEvaluation": "0001-01-01T00:00:00Z",
        "type": "recording",
    }


def test_rules_can_be_selected(server: HttpServer) -> None:
    def names(**parameters: str) -> list[str]:
        groups = get(server, "/api/v1/rules", **parameters).json()["data"]["groups"]
        return [rule["name"] for group in groups for rule in group["rules"]]

    assert names(type="record") == ["job:x:sum"]
    assert names(**{"rule_name[]": "TcpRetransmitSpike"}) == ["TcpRetransmitSpike"]
    assert names(**{"rule_group[]": "other"}) == []
    assert names(**{"file[]": "comm.yaml"}) == ["TcpRetransmitSpike", "job:x:sum"]


def test_grafana_can_complete_names_and_values(server: HttpServer, sources: Any) -> None:
    empty = np.array([0]), np.array([1.0])
    sources.series = [
        Series(Labels.of(__name__="up", node="a"), *empty),
        Series(Labels.of(__name__="up", node="b", rank="0"), *empty),
    ]
    assert get(server, "/api/v1/labels").json()["data"] == ["__name__", "node", "rank"]
    assert get(server, "/api/v1/label/node/values").json()["data"] == ["a", "b"]
    parameters = {"match[]": 'up{node="b"}', "start": "1", "end": "2"}
    assert get(server, "/api/v1/series", **parameters).json()["data"][1] == {
        "__name__": "up",
        "node": "b",
        "rank": "0",
    }
    matchers, start_ms, end_ms = sources.asked
    assert {(one.label, one.op, one.value) for one in matchers} == {
        ("__name__", "=", "up"),
        ("node", "=", "b"),
    }
    assert (start_ms, end_ms) == (1000, 2000)
    cut = get(server, "/api/v1/labels", limit="1").json()
    assert cut["data"] == ["__name__"]
    assert cut["warnings"] == ["results truncated due to limit"]


def test_health_is_one_thing_and_readiness_another(server: HttpServer, sources: Any) -> None:
    assert get(server, "/-/ready").text == "stallwatch is ready.\n"
    sources.why_unready = "the store is being refilled"
    assert get(server, "/-/healthy").status_code == 200
    reply = get(server, "/-/ready")
    assert reply.status_code == 503
    assert "the store is being refilled" in reply.text


def test_metrics_leave_out_empty_labels_and_name_the_process(
    server: HttpServer, sources: Any
) -> None:
    sources.own = [
        ("stallwatch_probe_up", (("probe", "tcp_retransmit"), ("reason", "")), "gauge", 1.0),
        ("stallwatch_probe_up", (("probe", "gpu"), ("reason", "no_library")), "gauge", 0.0),
        ("stallwatch_probe_lost_total", (("reason", 'a"b\n'),), "counter", 3.0),
    ]
    lines = get(server, "/metrics").text.splitlines()
    assert 'stallwatch_probe_up{probe="tcp_retransmit"} 1.0' in lines
    assert 'stallwatch_probe_up{probe="gpu",reason="no_library"} 0.0' in lines
    assert "# TYPE stallwatch_probe_lost_total counter" in lines
    assert 'stallwatch_probe_lost_total{reason="a\\"b\\n"} 3.0' in lines
    assert any(line.startswith("process_cpu_seconds_total ") for line in lines)


def test_openmetrics_is_given_to_who_asks_for_it(server: HttpServer) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    reply = requests.get(f"{server.url}/metrics", headers=accept, timeout=TIMEOUT)
    assert reply.text.endswith("# EOF\n")


def test_grafana_finds_what_it_asks_for_first(server: HttpServer) -> None:
    assert get(server, "/api/v1/status/buildinfo").json()["data"]["version"]
    assert get(server, "/api/v1/metadata").json() == {"status": "success", "data": {}}


def test_probes_are_told_with_what_was_seen_and_the_mend(server: HttpServer) -> None:
    assert get(server, "/api/v1/status/probes").json()["data"] == [
        {
            "probe": "gpu",
            "state": "off",
            "reason": "library_absent",
            "detail": "no libnvidia-ml",
            "mend": "install a driver",
        }
    ]


def test_an_unknown_path_and_a_wrong_method_are_said(server: HttpServer) -> None:
    assert get(server, "/api/v1/nothing").json()["errorType"] == "not_found"
    assert get(server, "/nothing").status_code == 404
    reply = requests.post(f"{server.url}/metrics", timeout=TIMEOUT)
    assert reply.status_code == 405
    assert reply.headers["Allow"] == "GET, HEAD"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_can_query(server: HttpServer) -> None:
    done = subprocess.run(
        ["promtool", "query", "instant", server.url, "up"],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    assert 'up{node="a"} => 1' in done.stdout
