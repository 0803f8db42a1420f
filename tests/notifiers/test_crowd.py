"""A thousand alerts of one evaluation, from state.db to a receiver."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from engine.config.model import RouteConfig
from engine.config.quantities import Interval
from notifiers.delivery import open_delivery
from notifiers.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALERTS = 1000
# Of each alert, with its evidence: a row of its own, a part of each message and of each body, as
# objects and as text, for two receivers that may be told at once; and what the test keeps of it.
BYTES_EACH = 15_000


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced")
def test_a_thousand_alerts_of_one_evaluation_are_one_message_a_group(
    make_hook: Any, support: Any, tmp_path: Path
) -> None:
    first, second = make_hook(), make_hook()
    config = support.configured(
        ops=[("webhook", {"url": first.url}), ("webhook", {"url": second.url})]
    ).model_copy(
        update={"route": RouteConfig(receiver="ops", group_wait=Interval(0), group_by=("task_id",))}
    )
    path = str(tmp_path / "state.db")
    delivery = open_delivery(config, path)
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    with sqlite3.connect(path) as connection:
        alerts = [
            support.firing(rank=str(rank), task_id=f"job{rank % 2}") for rank in range(ALERTS)
        ]
        delivery.enqueue(connection, alerts)
    delivery.start()
    for hook in (first, second):
        told = [json.loads(body) for _, body in hook.wait_for(2)]
        assert sorted(one["groupLabels"]["task_id"] for one in told) == ["job0", "job1"]
        for one in told:
            ranks = {alert["labels"]["rank"] for alert in one["alerts"]}
            job = int(one["groupLabels"]["task_id"].removeprefix("job"))
            assert ranks == {str(rank) for rank in range(ALERTS) if rank % 2 == job}
            assert len(one["alerts"]) == ALERTS / 2
    delivery.stop(support.PATIENCE)
    peak = tracemalloc.get_traced_memory()[1] - before
    assert peak < ALERTS * BYTES_EACH
    outbox = Outbox(path)
    assert (outbox.entries("pending"), len(outbox.entries("delivered"))) == ([], 4)
    outbox.close()
