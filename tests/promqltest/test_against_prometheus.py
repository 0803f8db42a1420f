"""Random expressions over random series give what a Prometheus at hand gives."""

from __future__ import annotations

import json
import math
import random
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

import pytest

from engine.dataset.dataset import MemoryDataset
from engine.labels import Labels
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.value import Axis
from rules.promql.parser import parse

from .comparison import Rows, answer
from .random_queries import Grammar, exposition, series

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Prometheus 2 takes names away at once.
OPTIONS = Options(default_step_ms=60_000, delayed_name_removal=False)
START_MS = 1_700_006_400_000
EXPRESSIONS = 250
SEED = 2026


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a Prometheus that holds the series."""
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        pytest.skip("no prometheus and promtool are installed")
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (folder / "text").write_text(exposition(series(random.Random(SEED), START_MS)))
    (folder / "prometheus.yml").write_text("global: {evaluation_interval: 1m}\n")
    blocks = ["tsdb", "create-blocks-from", "openmetrics", folder / "text", folder / "data"]
    subprocess.run(["promtool", *map(str, blocks)], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        ["prometheus", f"--config.file={folder / 'prometheus.yml'}",
         f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}",
         "--storage.tsdb.retention.time=100y"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _await(f"http://{address}/-/ready")
        yield f"http://{address}/api/v1/query_range"
    finally:
        server.terminate()
        server.wait()


def _await(address: str) -> None:
    for _ in range(600):
        if _answers(address):
            return
        time.sleep(0.1)
    pytest.fail("prometheus did not get ready")


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address).close()
    except OSError:
        return False
    return True


def _theirs(url: str, expr: str, axis: Axis) -> Rows | None:
    """None where it is refused."""
    first, last = int(axis.times_ms[0]), int(axis.times_ms[-1])
    query = {"query": expr, "start": first / 1000, "end": last / 1000, "step": axis.step_ms / 1000}
    try:
        with urllib.request.urlopen(url, urllib.parse.urlencode(query).encode()) as response:
            found = json.load(response)["data"]["result"]
    except urllib.error.HTTPError as error:
        error.close()
        return None
    return {
        Labels(row["metric"]): {round(at * 1000): float(value) for at, value in row["values"]}
        for row in found
    }


def _ours(data: MemoryDataset, expr: str, axis: Axis) -> Rows | None:
    try:
        return answer(evaluate(parse(expr), axis, data, OPTIONS), axis).rows
    except EvaluationError:
        return None


def _agree(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def _differences(theirs: Rows | None, ours: Rows | None) -> list[str]:
    if theirs is None or ours is None:
        return [] if theirs is ours else [f"refused: theirs {theirs is None}, ours {ours is None}"]
    found = []
    for labels in sorted(theirs.keys() | ours.keys()):
        one, other = theirs.get(labels, {}), ours.get(labels, {})
        found += [
            f"{labels} at {time}: theirs {one.get(time)}, ours {other.get(time)}"
            for time in sorted(one.keys() | other.keys())
            if time not in one or time not in other or not _agree(one[time], other[time])
        ]
    return found


def test_random_expressions_give_what_prometheus_gives(url: str) -> None:
    rand = random.Random(SEED)
    data = MemoryDataset(series(rand, START_MS))
    grammar = Grammar(rand, START_MS // 1000)
    wrong, answered = {}, 0
    for _ in range(EXPRESSIONS):
        expr = grammar.vector(rand.choice((1, 2, 2, 3)))
        first = START_MS + rand.randrange(3000) * 1000 + 377
        step, count = rand.choice((7, 10, 30, 61)) * 1000, rand.choice((1, 5, 30))
        axis = Axis.span(first, first + (count - 1) * step, step)
        theirs = _theirs(url, expr, axis)
        answered += bool(theirs)
        if differences := _differences(theirs, _ours(data, expr, axis)):
            wrong[expr, first, step, count] = differences[:3]
    assert wrong == {}
    assert answered > EXPRESSIONS / 2
