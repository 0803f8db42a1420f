"""One kill at each point where something is on the disk and something else is not yet."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from notifiers.dispatch import tables
from notifiers.outbox import Outbox
from notifiers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.alerts.alert import Alert

Agents = Any


def die(*_: object, **__: object) -> None:
    os._exit(9)


def first_life(make_agent: Agents, config: Any, alert: Alert, injected: Callable[[], None]) -> None:
    """A delivery in a fork that dies where something was injected."""
    pid = os.fork()
    if pid == 0:
        try:
            injected()
            agent = make_agent(config)
            agent.fire(alert)
            agent.settle("failed", 99)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def before_the_turn() -> None:
    whole = tables.alerts_since

    def alerts_since(connection: sqlite3.Connection, sequence: int) -> tuple[int, list[Alert]]:
        newest, alerts = whole(connection, sequence)
        if alerts:
            die()
        return newest, alerts

    tables.alerts_since = alerts_since


def before_the_send() -> None:
    Worker._attempt = die  # type: ignore[method-assign]


def before_the_acknowledgement() -> None:
    Outbox.delivered = die  # type: ignore[method-assign]


def told(hook: Any) -> list[tuple[str, str, bool]]:
    """(status, id, whether it says that it may be a repeat)."""
    return [
        (json.loads(body)["status"], headers["Idempotency-Key"], "X-Stallwatch-Repeat" in headers)
        for headers, body in hook.received
    ]


@pytest.mark.parametrize(
    ("injected", "repeats"),
    [(before_the_turn, 0), (before_the_send, 0), (before_the_acknowledgement, 1)],
)
def test_a_kill_between_two_commits_loses_nothing(
    hook: Any, make_agent: Agents, support: Any, injected: Callable[[], None], repeats: int
) -> None:
    config = support.configured(ops=[("webhook", {"url": hook.url})])
    first_life(make_agent, config, support.firing(), injected)
    agent = make_agent(config)
    agent.settle("delivered", 1)
    agent.fire(support.resolved(support.firing()))
    agent.settle("delivered", 2)
    heard = told(hook)
    assert [status for status, _, _ in heard] == ["firing"] * (1 + repeats) + ["resolved"]
    assert [marked for *_, marked in heard[1:-1]] == [True] * repeats
    assert len({own for _, own, _ in heard}) == 2


def test_a_kill_before_the_dispatcher_knows_what_was_given_up(
    hook: Any, make_agent: Agents, support: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was refused is news again, and its end is owed to nobody before that."""
    hook.replies = [support.status(400)]
    config = support.configured(ops=[("webhook", {"url": hook.url})])

    def injected() -> None:
        whole = Outbox.fail

        def fail(self: Outbox, *given: Any) -> int:
            whole(self, *given)
            os._exit(9)

        Outbox.fail = fail  # type: ignore[method-assign, assignment]

    monkeypatch.setattr("notifiers.dispatch.deduplication.REFUSED_PAUSE_MS", 0)
    first_life(make_agent, config, support.firing(), injected)
    agent = make_agent(config)
    agent.settle("delivered", 1)
    agent.fire(support.resolved(support.firing()))
    agent.settle("delivered", 2)
    heard = told(hook)
    assert [status for status, _, _ in heard] == ["firing", "firing", "resolved"]
    assert len({own for _, own, _ in heard}) == 3
    with sqlite3.connect(agent.path) as connection:
        assert connection.execute("SELECT count(*) FROM notify_refusal").fetchone() == (0,)
