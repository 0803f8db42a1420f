"""What rules learn: the same live, after kills, in a dry-run, from snapshots and without any.

An agent is driven by hand through two hours, killed and stopped on the way. What it recorded is
held against a fold of its own recording from the first sample on.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.baselines.folds import Folds
from engine.dataset import open_data
from engine.flush import Flush
from engine.pipeline.replay import replay
from engine.pipeline.view import AgentView
from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from engine.recording import open_recording
from rules.loader import load_paths
from rules.promql.ast import VectorSelector
from rules.promql.parser import parse
from tests.engine.pipeline.test_live_equals_dry_run import LOAD, START, Bench, told

if TYPE_CHECKING:
    from pathlib import Path

    from engine.labels import Labels
    from engine.recording import Recording
    from engine.series import Series
    from engine.telemetry import OwnSample

RULES = """
groups:
  - name: fast
    rules:
      - {record: score, expr: anomaly_score(load)}
      - {record: again, expr: 'anomaly_score((load))'}
      - {record: whole, expr: anomaly_score(sum by (task_id) (load))}
      - alert: Odd
        expr: anomaly_score(load) >= 0.5
        keep_firing_for: 30s
  - name: slow
    interval: 1m
    rules:
      - {record: slow_score, expr: anomaly_score(load)}
      - {record: slow_whole, expr: anomaly_score(sum by (task_id) (load))}
"""
SHARED = """
groups:
  - name: often
    rules:
      - {alert: Odd, expr: anomaly_score(load) > 0.45}
      - {alert: OddWhole, expr: anomaly_score(sum by (task_id) (load)) > 0.45}
"""
ASIDE = """
  - name: rarely
    interval: 1m
    query_offset: 40s
    rules:
      - {alert: Aside, expr: anomaly_score(load) > 0.4}
      - {alert: Aside, expr: 'anomaly_score(sum by (task_id) (load)) > 0.4', labels: {is: whole}}
"""
EXPRESSIONS = {
    "score": "anomaly_score(load)",
    "again": "anomaly_score(load)",
    "whole": "anomaly_score(sum by (task_id) (load))",
    "slow_score": "anomaly_score(load)",
    "slow_whole": "anomaly_score(sum by (task_id) (load))",
}
STEPS = 700
# After how many steps the agent ends, how, and for how many seconds it is away.
ENDS = {200: ("die", 0), 380: ("stop", 40), 390: ("die", 130), 560: ("die", 0), 561: ("die", 0)}


def drive(bench: Bench, steps: int, ends: dict[int, tuple[str, int]], second: int = START) -> None:
    """Noise with a jump, flush by flush, and an evaluation after each."""
    rng = np.random.default_rng(5)
    for number in range(steps):
        second += 10
        values = rng.normal(size=2) + (25 if 500 <= number < 540 else 0)
        bench.now = second + 0.2
        bench.flush(Flush(second * 1000, tuple(LOAD), values, ()))
        bench.turn()
        bench.now = second + 9.0
        if number in ends:
            end, down = ends[number]
            if end == "stop":
                bench.agent.stop()
            else:
                bench.die()
            second += down
            bench.now = second + 9.0
            bench.start()


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """An agent that went through it all and was stopped; what it told is in `outcome`."""
    bench = Bench(tmp_path_factory.mktemp("driven"), RULES)
    drive(bench, STEPS, ENDS)
    return bench


@pytest.fixture(scope="module")
def alerts(driven: Bench) -> list[tuple[object, ...]]:
    """What the agent told; it is stopped then."""
    found = sorted(map(told, driven.outcome()))
    driven.agent.stop()
    return found


@pytest.fixture(scope="module")
def recording(driven: Bench, alerts: object) -> Recording:
    """What it recorded."""
    del alerts
    return open_recording(str(driven.folder / "state" / "recording"))


def folded(recording: Recording, text: str, times_ms: np.ndarray) -> dict[Labels, np.ndarray]:
    """The scores by the definition: from the first sample on, with no snapshot, in one piece."""
    folds = Folds(origin_ms=recording.start_ms)
    value = evaluate(
        parse(text), Axis(times_ms, 0, rule=True), recording, Options(folds=folds)
    ).value
    assert isinstance(value, Vector)
    rows = zip(value.labels, value.values, value.present, strict=True)
    return {labels: np.where(here, row, np.nan) for labels, row, here in rows}


def recorded(recording: Recording, name: str) -> list[Series]:
    selector = parse(name)
    return recording.select_derived(selector.matchers, 0, 1 << 62)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_was_recorded_live_through_kills_has_the_bits_of_one_fold(
    recording: Recording, name: str
) -> None:
    series = recorded(recording, name)
    assert series
    for one in series:
        expected = folded(recording, EXPRESSIONS[name], one.timestamps_ms)
        alike = expected[one.labels.without("__name__")]
        assert len(one.values) > (60 if name.startswith("slow") else 400)
        assert one.values.tobytes() == alike.tobytes()


def test_a_snapshot_is_written_with_each_hour_and_at_a_stop(recording: Recording) -> None:
    load = parse("load")
    assert isinstance(load, VectorSelector)
    flushes = recording.select(load.matchers, 0, 1 << 62)[0].timestamps_ms.tolist()
    # Hours that ended while the agent ran, and what was left when it ended, by a kill too.
    hours = [
        later // 3_600_000 * 3_600_000 - 1
        for earlier, later in pairwise(flushes)
        if earlier // 3_600_000 < later // 3_600_000 and later - earlier == 10_000
    ]
    ends = [
        max(time_ms for time_ms in flushes if time_ms <= restart_ms)
        for restart_ms in recording.restarts[1:]
    ]
    found = [time_ms for time_ms, _ in recording.snapshots()]
    assert found == sorted({*hours, *ends, flushes[-1]})


def test_a_dry_run_tells_what_was_told_live(
    driven: Bench, alerts: list[tuple[object, ...]]
) -> None:
    files = load_paths([driven.folder / "rules.yaml"])
    result = replay(files, open_data(str(driven.folder / "state" / "recording")))
    assert not result.failures
    assert alerts
    assert sorted(map(told, result.alerts)) == alerts


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_dry_run_that_starts_late_has_learnt_from_the_first_sample(
    driven: Bench, alerts: object, has_snapshots: bool, tmp_path: Path
) -> None:
    del alerts
    folder = tmp_path / "recording"
    folder.mkdir()
    for file in (driven.folder / "state" / "recording").iterdir():
        if has_snapshots or not file.name.startswith("baselines-"):
            (folder / file.name).write_bytes(file.read_bytes())
    files = load_paths([driven.folder / "rules.yaml"])
    data = open_data(str(folder))
    start_ms = (START + 4_800) * 1000
    whole, late = replay(files, data), replay(files, data, start_ms)
    expected = [told(own) for own in whole.alerts if (own.fired_at_ms or 0) >= start_ms]
    assert expected
    assert list(map(told, late.alerts)) == expected


def test_chunks_of_any_length_and_a_second_rule_change_nothing(
    driven: Bench, alerts: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del alerts
    data = open_data(str(driven.folder / "state" / "recording"))
    both, alone = tmp_path / "both.yaml", tmp_path / "alone.yaml"
    both.write_text(SHARED + ASIDE)
    alone.write_text(SHARED)

    def outcome(rules: Path) -> list[tuple[object, ...]]:
        found = replay(load_paths([rules]), data, fill=True)
        assert not found.failures
        return [told(own) for own in found.alerts if own.labels.get("alertname") != "Aside"]

    expected = outcome(both)
    assert len(expected) > 5
    assert outcome(alone) == expected
    monkeypatch.setattr("engine.pipeline.replay.CHUNK_MS", 1_030_000)
    assert outcome(both) == expected


def test_damaged_snapshots_cost_time_and_nothing_else(
    driven: Bench, alerts: object, tmp_path: Path
) -> None:
    del alerts
    folder = tmp_path / "recording"
    folder.mkdir()
    for file in (driven.folder / "state" / "recording").iterdir():
        content = file.read_bytes()
        if file.name.startswith("baselines-"):
            content = content[:40] + b"?" + content[41:]
        (folder / file.name).write_bytes(content)
    files = load_paths([driven.folder / "rules.yaml"])
    start_ms = (START + 4_800) * 1000
    damaged = replay(files, open_data(str(folder)), start_ms)
    sound = replay(files, open_data(str(driven.folder / "state" / "recording")), start_ms)
    assert list(map(told, damaged.alerts)) == list(map(told, sound.alerts))


def test_the_agent_says_how_far_its_baselines_are_and_asking_moves_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, RULES)
    drive(bench, 20, {})
    assert ready(bench) == {"load": 0.0, "sum by (task_id) (load)": 0.0}
    drive(bench, 160, {}, START + 200)
    assert ready(bench) == {"load": 1.0, "sum by (task_id) (load)": 1.0}

    fold = bench.agent.baselines.folds.by_text["load"]
    before = fold.folded_ms
    bench.flush(Flush((START + 9_000) * 1000, tuple(LOAD), np.zeros(2), ()))
    axis = Axis.span((START + 600) * 1000, (START + 9_000) * 1000, 60_000)
    view = AgentView(bench.agent)
    for text in ("anomaly_score(load)", "anomaly_score(load * 2)"):
        value = view.query(text, axis).value
        assert isinstance(value, Vector)
        assert value.present[:, -1].all()
    assert fold.folded_ms == before
    assert len(bench.agent.baselines.folds.by_text) == 2
    bench.agent.stop()


def test_a_flush_does_not_wait_for_an_evaluation_that_learns(tmp_path: Path) -> None:
    bench = Bench(tmp_path, RULES)
    drive(bench, 2, {})
    before = bench.agent.baselines.samples()
    assert before
    found: list[object] = []
    with bench.agent.baselines.folds.lock:
        other = threading.Thread(target=lambda: found.append(bench.agent.baselines.samples()))
        other.start()
        other.join()
    assert found == [before]
    bench.agent.stop()


def ready(bench: Bench) -> dict[str, float]:
    samples: list[OwnSample] = bench.agent.baselines.samples()
    return {
        dict(labels)["baseline"]: value
        for name, labels, _, value in samples
        if name == "stallwatch_baseline_ready"
    }
