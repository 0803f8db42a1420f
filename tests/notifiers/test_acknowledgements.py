"""What somebody has seen is not repeated; its end is told, and when it fires again that is news."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

import pytest

from engine.alerts.alert import Acknowledgement
from engine.alerts.fingerprint import fingerprint
from engine.alerts.relabelling import RelabelRule
from engine.http.message import JSON, ApiError, Request
from engine.http.paths import ACKNOWLEDGE, NOTIFY, WITHDRAW
from notifiers.acknowledgements import Acknowledged
from notifiers.simulation import simulate
from tests.notifiers.dispatch.timeline import START, dispatcher, events, labels_of, route

HOUR = 3_600_000


def told(acknowledged: dict[str, float], *lines: str, until: float = 3000) -> list[str]:
    """`30 +A/n1`: `acknowledged` has by alert the second at which it fired."""
    one = dispatcher(route(repeat=600))
    one.acknowledged = Acknowledged(
        {
            (fingerprint(labels_of(name)), START + round(at * 1000)): Acknowledgement("me", "", 0)
            for name, at in acknowledged.items()
        }
    )
    return [
        f"{(sent.time_ms - START) / 1000:g} "
        + " ".join(
            f"{'+' if each.resolved_at_ms is None else '-'}{each.labels.get('alertname')}"
            f"/{each.labels.get('node')}"
            for each in sent.message.alerts
        )
        for sent in simulate(one, events(*lines), START + round(until * 1000))
    ]


def test_repeats_stop_while_all_that_fires_is_acknowledged() -> None:
    both = ("0 +A/n1", "0 +A/n2")
    repeated = ["30 +A/n1 +A/n2", "930 +A/n1 +A/n2", "1830 +A/n1 +A/n2", "2730 +A/n1 +A/n2"]
    assert told({}, *both) == repeated
    assert told({"A/n1": 0}, *both) == repeated
    assert told({"A/n1": 0, "A/n2": 0}, *both) == ["30 +A/n1 +A/n2"]


def test_also_when_the_log_would_have_forgotten_the_message_before() -> None:
    assert told({"A/n1": 0}, "0 +A/n1", until=20_000) == ["30 +A/n1"]


def test_a_new_alert_and_the_end_are_told() -> None:
    assert told({"A/n1": 0}, "0 +A/n1", "900 +A/n2", "1300 -A/n2", "2000 -A/n1") == [
        "30 +A/n1",
        "930 +A/n1 +A/n2",
        "1530 +A/n1 -A/n2",
        "2130 -A/n1",
    ]


def test_when_it_fires_again_that_is_news_and_repeated() -> None:
    assert told({"A/n1": 0}, "0 +A/n1", "100 -A/n1", "400 +A/n1", until=2000) == [
        "30 +A/n1",
        "330 -A/n1",
        "630 +A/n1",
        "1530 +A/n1",
    ]


@pytest.fixture
def agent(hook: Any, make_agent: Any, support: Any) -> Any:
    return make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))


def post(agent: Any, path: str, content_type: str = JSON, **body: Any) -> Any:
    handle = agent.delivery.mounted(tuple)[NOTIFY]
    request = Request("POST", path, body=json.dumps(body).encode(), content_type=content_type)
    return json.loads(handle(request).body)["data"]


def seen(agent: Any, one: Any) -> Acknowledgement | None:
    found: Acknowledgement | None = agent.delivery.suppression(one).acknowledgement
    return found


def wait_for(agent: Any, one: Any, *, acknowledged: bool) -> None:
    while (seen(agent, one) is not None) != acknowledged:
        pass


def test_it_is_kept_in_the_database_and_goes_with_the_alert(
    hook: Any, agent: Any, make_agent: Any, support: Any
) -> None:
    down, up = support.firing("Down"), support.firing("Up")
    agent.fire(down, up)
    agent.settle("delivered", 2)
    found = post(agent, ACKNOWLEDGE, matchers=["alertname=Down"], author="me", comment="on it")
    assert found == [down.labels.to_dict()]
    wait_for(agent, down, acknowledged=True)
    assert seen(agent, up) is None
    agent.delivery.stop(support.PATIENCE)
    after = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    wait_for(after, down, acknowledged=True)
    given = seen(after, down)
    assert given is not None
    assert (given.author, given.comment) == ("me", "on it")
    after.fire(support.resolved(down))
    after.settle("delivered", 3)
    wait_for(after, down, acknowledged=False)
    connection = sqlite3.connect(after.path)
    assert connection.execute("SELECT count(*) FROM notify_ack").fetchone() == (0,)
    connection.close()


def test_it_is_taken_back(agent: Any, support: Any) -> None:
    down = support.firing("Down")
    agent.fire(down)
    agent.settle("delivered", 1)
    assert post(agent, WITHDRAW, matchers=["alertname=Down"]) == []
    post(agent, ACKNOWLEDGE, matchers=["alertname=Down"], author="me")
    wait_for(agent, down, acknowledged=True)
    assert post(agent, WITHDRAW, matchers=["alertname=Down"]) == [down.labels.to_dict()]
    wait_for(agent, down, acknowledged=False)


def test_alerts_are_found_by_their_own_labels_and_by_those_that_are_sent(
    hook: Any, make_agent: Any, support: Any
) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})]).model_copy(
        update={"alert_relabel_configs": (RelabelRule(target_label="team", replacement="net"),)}
    )
    agent, down = make_agent(config), support.firing("Down")
    agent.fire(down)
    agent.settle("delivered", 1)
    for matchers in (["team=net"], ["node=n1", "alertname=~D.*"]):
        assert post(agent, ACKNOWLEDGE, matchers=matchers, author="me") == [down.labels.to_dict()]
    assert post(agent, ACKNOWLEDGE, matchers=["team=web"], author="me") == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"author": "me"}, "matchers: Field required"),
        ({"matchers": [], "author": "me"}, "matchers: List should have at least 1 item"),
        ({"matchers": ["a=b"]}, "author: Field required"),
        ({"matchers": ["a=b"], "author": ""}, "author: String should have at least 1 character"),
        ({"matchers": ["a=~("], "author": "me"}, "matchers: "),
        ({"matchers": ["a!=b"], "author": "me"}, "at least one has to ask for something"),
        ({"matchers": ["a=b"], "author": "me", "until": 3}, "until: Extra inputs"),
    ],
)
def test_a_request_that_is_none_is_refused(agent: Any, body: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError, match=re.escape(said)):
        post(agent, ACKNOWLEDGE, **body)
    with pytest.raises(ApiError, match="a body must be"):
        post(agent, ACKNOWLEDGE, "text/plain", matchers=["a=b"], author="me")


def test_what_is_answered_is_on_the_disk_so_that_a_kill_leaves_it_there(
    agent: Any, support: Any
) -> None:
    agent.fire(support.firing("Down"))
    agent.settle("delivered", 1)
    post(agent, ACKNOWLEDGE, matchers=["alertname=Down"], author="me")
    connection = sqlite3.connect(agent.path)
    assert connection.execute("SELECT author FROM notify_ack").fetchall() == [("me",)]
    connection.close()
