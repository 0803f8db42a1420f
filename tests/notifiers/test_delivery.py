"""Delivery end to end: alerts in, HTTP requests out, with receivers that misbehave."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.config.model import RateLimitConfig, RouteConfig
from engine.config.quantities import Interval
from notifiers.delivery import open_delivery
from notifiers.outbox import Outbox
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

HOUR = 3_600_000


def test_firing_and_resolved_both_arrive_once_and_in_order(
    hook: Any, make_agent: Any, support: Any
) -> None:
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    alert = support.firing()
    agent.fire(alert)
    agent.settle("delivered", 1)
    agent.fire(support.resolved(alert))
    agent.settle("delivered", 2)
    assert [json.loads(body)["status"] for _, body in hook.received] == ["firing", "resolved"]
    assert len(set(hook.ids())) == 2
    assert agent.sample("stallwatch_notify_sent_total", receiver="ops", integration="webhook") == 2
    assert agent.sample("stallwatch_notify_pending", receiver="ops") == 0


def test_a_limit_holds_back_what_is_counted_and_told_when_there_is_room(
    hook: Any, make_agent: Any, support: Any
) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    limit = RateLimitConfig(messages=1, per=Interval(86_400_000))
    receivers = tuple(one.model_copy(update={"rate_limit": limit}) for one in config.receivers)
    limited = make_agent(config.model_copy(update={"receivers": receivers}))
    limited.fire(support.firing("One"))
    limited.settle("delivered", 1)
    limited.fire(support.firing("Two"))
    named = {"receiver": "ops", "integration": "ops/webhook/0"}
    limited.settle_sample("stallwatch_notify_waiting_groups", 1, **named)
    assert limited.sample("stallwatch_notify_held_back_total", **named) == 1
    limited.delivery.stop(support.PATIENCE)
    # Without the limit the next agent tells it, from what is in state.db.
    make_agent(config).settle("delivered", 2)
    names = [json.loads(body)["alerts"][0]["labels"]["alertname"] for _, body in hook.received]
    assert names == ["One", "Two"]


def test_an_alert_is_sent_with_external_labels_and_ends_with_them_when_they_have_changed(
    hook: Any, make_agent: Any, support: Any
) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    alert = support.firing()
    before = make_agent(config.model_copy(update={"external_labels": {"region": "eu"}}))
    before.fire(alert)
    before.settle("delivered", 1)
    before.delivery.stop(support.PATIENCE)
    after = make_agent(config.model_copy(update={"external_labels": {"region": "us"}}))
    after.fire(support.resolved(alert))
    after.settle("delivered", 2)
    sent = [json.loads(body)["alerts"][0] for _, body in hook.received]
    assert [one["labels"]["region"] for one in sent] == ["eu", "eu"]
    assert [one["status"] for one in sent] == ["firing", "resolved"]


def test_nothing_is_sent_for_a_transaction_that_is_rolled_back(
    hook: Any, make_agent: Any, support: Any
) -> None:
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    connection = sqlite3.connect(agent.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    agent.delivery.enqueue(connection, [support.firing("RolledBack")])
    assert connection.in_transaction
    connection.execute("ROLLBACK")
    connection.close()
    agent.fire(support.firing("Committed"))
    agent.settle("delivered", 1)
    assert [json.loads(body)["groupLabels"]["alertname"] for _, body in hook.received] == [
        "Committed"
    ]


def test_the_same_transition_twice_is_one_message(hook: Any, make_agent: Any, support: Any) -> None:
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    agent.fire(support.firing())
    agent.fire(support.firing())
    agent.fire(support.firing("Other"))
    agent.settle("delivered", 2)
    assert len(hook.received) == 2


@pytest.mark.parametrize("code", [500, 503, 429, 408])
def test_a_passing_failure_is_tried_again_with_the_same_id(
    hook: Any, make_agent: Any, support: Any, code: int
) -> None:
    hook.replies = [support.status(code), support.status(code)]
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    agent.fire(support.firing())
    agent.settle("delivered", 1)
    assert len(hook.received) == 3
    assert len(set(hook.ids())) == 1
    assert agent.sample("stallwatch_notify_retries_total", receiver="ops") == 2


@pytest.mark.parametrize(
    ("code", "reason"), [(400, "http_400"), (401, "http_401"), (404, "http_404"), (302, "redirect")]
)
def test_a_refusal_is_a_dead_letter_with_its_reason(
    hook: Any, make_agent: Any, support: Any, code: int, reason: str
) -> None:
    hook.always = support.status(code, Location="http://127.0.0.1:1/stolen")
    # A group tells again what was refused when its interval is over, as Alertmanager's does.
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), interval_ms=HOUR)
    agent.fire(support.firing())
    assert agent.settle("failed", 1) == [("ops", "firing", "rejected")]
    assert len(hook.received) == 1
    agent.await_sample("stallwatch_notify_failed_total", 1, receiver="ops", reason="rejected")
    assert agent.sample("stallwatch_notify_dead", receiver="ops") == 1
    outbox = Outbox(agent.path)
    (entry,) = outbox.entries("failed")
    outbox.close()
    assert entry.detail.startswith(f"{reason}: HTTP {code}")


def test_no_resolution_for_who_never_heard_of_the_firing(
    hook: Any, make_agent: Any, support: Any
) -> None:
    hook.always = support.status(404)
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]), interval_ms=HOUR)
    alert = support.firing()
    agent.fire(alert)
    agent.settle("failed", 1)
    agent.fire(support.resolved(alert))
    assert agent.rows("pending") == []
    assert agent.rows("delivered") == []


def test_a_resolution_that_waits_goes_down_with_its_firing(
    hook: Any, make_agent: Any, support: Any
) -> None:
    ended = threading.Event()
    hook.always = lambda handler: (ended.wait(support.PATIENCE), support.status(404)(handler))
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url, "timeout": "1m"})]))
    alert = support.firing()
    agent.fire(alert)
    hook.wait_for(1)
    agent.fire(support.resolved(alert))
    agent.settle("pending", 2)
    ended.set()
    rows = agent.settle("failed", 2)
    assert [reason for _, _, reason in rows] == ["rejected", "firing_not_delivered"]
    assert len(hook.received) == 1


def test_send_resolved_false_keeps_the_end_to_itself(
    hook: Any, make_agent: Any, support: Any
) -> None:
    settings = {"url": hook.url, "send_resolved": False}
    agent = make_agent(support.configured(ops=[("webhook", settings)]))
    alert = support.firing()
    agent.fire(alert)
    agent.settle("delivered", 1)
    agent.fire(support.resolved(alert), support.firing("Other"))
    agent.settle("delivered", 2)
    assert [json.loads(body)["status"] for _, body in hook.received] == ["firing", "firing"]


def test_a_dead_and_a_hanging_receiver_hold_up_nobody(
    make_hook: Any, make_agent: Any, support: Any
) -> None:
    good, hanging = make_hook(), make_hook()
    leave = threading.Event()
    hanging.always = lambda handler: (leave.wait(support.PATIENCE), support.status(200)(handler))
    agent = make_agent(
        support.configured(
            dead=[("webhook", {"url": "http://127.0.0.1:1/"})],
            hanging=[("webhook", {"url": hanging.url, "timeout": "1m"})],
            # The same receiver: one integration's failure is not the other's either.
            good=[("webhook", {"url": "http://127.0.0.1:1/"}), ("webhook", {"url": good.url})],
        )
    )
    for number in range(5):
        agent.fire(support.firing(f"Alert{number}"))
    received = good.wait_for(5)
    names = [json.loads(body)["groupLabels"]["alertname"] for _, body in received]
    assert names == [f"Alert{number}" for number in range(5)]
    agent.settle("delivered", 5)
    hanging.wait_for(1)
    assert agent.sample("stallwatch_notify_pending", receiver="dead") == 5
    assert agent.sample("stallwatch_notify_pending", receiver="good") == 5
    assert len(hanging.received) == 1
    leave.set()
    agent.settle("delivered", 10)


def test_a_hanging_receiver_is_left_after_its_timeout_and_tried_again(
    hook: Any, make_agent: Any, support: Any
) -> None:
    leave = threading.Event()
    hook.replies = [lambda _handler: leave.wait(support.PATIENCE)]
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url, "timeout": "100ms"})]))
    agent.fire(support.firing())
    agent.settle("delivered", 1)
    leave.set()
    assert agent.sample("stallwatch_notify_retries_total", reason="timeout") >= 1


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 20")
    handler.close_connection = True


def test_an_answer_that_breaks_off_is_no_acknowledgement(
    hook: Any, make_agent: Any, support: Any
) -> None:
    hook.replies = [cut_off]
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    agent.fire(support.firing())
    agent.settle("delivered", 1)
    assert len(hook.received) == 2
    assert len(set(hook.ids())) == 1


def test_one_bad_message_does_not_hold_up_the_others(
    hook: Any, make_agent: Any, support: Any
) -> None:
    agent = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    poison, alert = support.firing("Poison"), support.firing("Fine")

    def choosy(handler: BaseHTTPRequestHandler) -> None:
        poisoned = b"Poison" in hook.received[-1][1]
        support.status(500 if poisoned else 200)(handler)

    hook.always = choosy
    agent.fire(poison)
    hook.wait_for(1)
    agent.fire(alert)
    assert agent.settle("delivered", 1) == [("ops", "firing", "")]


def test_what_is_too_old_is_given_up_and_counted(hook: Any, make_agent: Any, support: Any) -> None:
    hook.always = support.status(500)
    settings = {"url": hook.url, "max_retry_age": "1ms"}
    agent = make_agent(support.configured(ops=[("webhook", settings)]), interval_ms=HOUR)
    agent.fire(support.firing())
    agent.settle("failed", 1)
    agent.await_sample("stallwatch_notify_failed_total", 1, reason="expired")


def test_stop_leaves_the_rest_in_the_outbox_for_the_next_start(
    hook: Any, make_agent: Any, support: Any
) -> None:
    config = support.configured(ops=[("webhook", {"url": "http://127.0.0.1:1/"})])
    agent = make_agent(config)
    agent.fire(support.firing())
    agent.settle("pending", 1)
    agent.delivery.stop(support.PATIENCE)
    later = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    later.settle("delivered", 1)


def test_what_a_removed_receiver_was_owed_stays_visible(make_agent: Any, support: Any) -> None:
    gone = support.configured(old=[("webhook", {"url": "http://127.0.0.1:1/"})])
    agent = make_agent(gone)
    agent.fire(support.firing())
    agent.settle("pending", 1)
    agent.delivery.stop(support.PATIENCE)
    later = make_agent(support.configured())
    assert later.rows("failed") == [("old", "firing", "receiver_removed")]


def test_a_receiver_that_is_configured_again_is_told_what_it_never_heard(
    hook: Any, make_agent: Any, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifiers.dispatch.deduplication.REFUSED_PAUSE_MS", 0)
    agent = make_agent(support.configured(ops=[("webhook", {"url": "http://127.0.0.1:1/"})]))
    agent.fire(support.firing("Lasting"), support.firing("Over"))
    agent.settle("pending", 2)
    agent.delivery.stop(support.PATIENCE)
    without = make_agent(support.configured(other=[("webhook", {"url": hook.url})]))
    without.settle("failed", 2)
    without.settle("delivered", 2)
    without.fire(support.resolved(support.firing("Over")))
    without.settle("delivered", 3)
    without.delivery.stop(support.PATIENCE)
    before = len(hook.received)
    again = make_agent(support.configured(ops=[("webhook", {"url": hook.url})]))
    hook.wait_for(before + 1)
    again.fire(support.resolved(support.firing("Lasting")))
    hook.wait_for(before + 2)
    heard = [json.loads(body) for _, body in hook.received[before:]]
    # The end of what it never heard of is not among them.
    assert [(one["commonLabels"]["alertname"], one["status"]) for one in heard] == [
        ("Lasting", "firing"),
        ("Lasting", "resolved"),
    ]


def test_an_end_that_nobody_is_left_to_hear_does_not_wait_for_ever(
    hook: Any, make_agent: Any, support: Any
) -> None:
    agent = make_agent(support.configured(old=[("webhook", {"url": hook.url})]))
    alert = support.firing()
    agent.fire(alert)
    agent.settle("delivered", 1)
    agent.delivery.stop(support.PATIENCE)
    later = make_agent(support.configured())
    later.fire(support.resolved(alert))
    later.await_rows("failed", [("old", "resolved", "receiver_removed")])
    assert later.rows("pending") == []


def test_only_the_receiver_that_the_route_names_is_told(
    hook: Any, support: Any, tmp_path: Path
) -> None:
    config = support.configured(
        ops=[("webhook", {"url": hook.url})], other=[("webhook", {"url": "http://127.0.0.1:1/"})]
    ).model_copy(update={"route": RouteConfig(receiver="ops", group_wait=Interval(0))})
    path = str(tmp_path / "state.db")
    delivery = open_delivery(config, path)
    with sqlite3.connect(path) as connection:
        delivery.enqueue(connection, [support.firing(), support.firing("Other")])
    delivery.start()
    ((_, body),) = hook.wait_for(1)
    delivery.stop(support.PATIENCE)
    # One group of both, as Alertmanager makes it of a route without `group_by`.
    assert len(json.loads(body)["alerts"]) == 2
    outbox = Outbox(path)
    assert outbox.entries("pending") == []
    outbox.close()


def test_a_database_that_cannot_be_used_is_one_clear_error(support: Any, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("this is no database, however long it is")
    with pytest.raises(StallwatchError, match=r"state\.db: cannot be used as outbox"):
        open_delivery(support.configured(), str(tmp_path / "state.db"))


CHILD = """
import sqlite3, sys, threading
from engine.alerts.alert import Alert, AlertState
from engine.config.model import Config, IntegrationConfig, ReceiverConfig
from engine.labels import Labels
from notifiers.delivery import open_delivery
url, path = sys.argv[1:]
one = IntegrationConfig(kind="webhook", settings={"url": url})
config = Config(receivers=(ReceiverConfig(name="ops", integrations=(one,)),))
delivery = open_delivery(config, path)
alert = Alert(Labels.of(alertname="A"), {}, AlertState.FIRING, 1.0, 1000, 1000)
with sqlite3.connect(path) as connection:
    delivery.enqueue(connection, [alert])
delivery.start()
threading.Event().wait()
"""


def test_a_kill_between_sending_and_acknowledgement_repeats_the_same_id(
    hook: Any, make_agent: Any, support: Any, tmp_path: Path
) -> None:
    child: list[subprocess.Popen[bytes]] = []
    started = threading.Event()

    def kill(_handler: BaseHTTPRequestHandler) -> None:
        assert started.wait(support.PATIENCE)
        child[0].kill()
        child[0].wait()

    hook.replies = [kill]
    path = str(tmp_path / "state.db")
    child.append(subprocess.Popen([sys.executable, "-c", CHILD, hook.url, path]))
    started.set()
    hook.wait_for(1)
    child[0].wait(support.PATIENCE)
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    agent = make_agent(config)
    agent.settle("delivered", 1)
    agent.delivery.stop(support.PATIENCE)
    # And once it is acknowledged, no later start sends it again.
    again = make_agent(config)
    again.fire(support.firing("Marker"))
    again.settle("delivered", 2)
    first, second, marker = hook.ids()
    assert first == second != marker


def test_a_kill_after_the_acknowledgement_repeats_nothing(
    hook: Any, make_agent: Callable[..., Any], support: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "state.db")
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    with subprocess.Popen([sys.executable, "-c", CHILD, hook.url, path]) as child:
        hook.wait_for(1)
        probe = make_agent(support.configured(), start=False)
        probe.settle("delivered", 1)
        child.kill()
    agent = make_agent(config)
    agent.fire(support.firing("Marker"))
    agent.settle("delivered", 2)
    assert len(hook.received) == 2
