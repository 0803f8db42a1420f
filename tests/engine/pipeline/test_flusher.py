"""What probes say of themselves is the agent's own: on `/metrics`, and in the flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.aggregate.aggregator import Aggregator
from engine.aggregate.fold import Fold
from engine.aggregate.identity import TaskDirectory
from engine.aggregate.queue import FlushMark, ReadingQueue
from engine.http.exposition import Exposition
from engine.labels import Labels
from engine.pipeline.flusher import Flusher
from engine.readings import Level, Process
from engine.telemetry import Telemetry

if TYPE_CHECKING:
    from engine.flush import Flush

FUNCTION = (("probe", "cuda"), ("function", "cudaLaunchKernel"))
MODE, RATIO = "stallwatch_probe_mode", "stallwatch_probe_overhead_ratio"


class Line:
    """A flusher, and what came out of it."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.flushes: list[Flush] = []
        aggregator = Aggregator(Fold(Labels.of(node="n")), TaskDirectory())
        queue = ReadingQueue(100)
        self.flusher = Flusher(queue, aggregator, self.telemetry, [self.flushes.append])
        self.samples = self.telemetry.samples

    def flush(self, second: int, *levels: Level) -> dict[Labels, float]:
        for level in levels:
            self.flusher.take(("cuda", level))
        self.flusher.take(FlushMark(second * 1000))
        flush = self.flushes[-1]
        return dict(zip(flush.labels, flush.values.tolist(), strict=True))

    def page(self) -> list[str]:
        return Exposition(self).render("text/plain").body.decode().splitlines()  # type: ignore[arg-type]


@pytest.fixture
def line() -> Line:
    return Line()


def mode(name: str) -> Level:
    return Level(MODE, None, 1.0, (*FUNCTION, ("mode", name)))


def test_a_mode_a_share_and_an_error_are_on_the_agents_own_page(line: Line) -> None:
    line.flush(1, mode("duty"), Level(RATIO, None, 0.007, FUNCTION))
    own = 'function="cudaLaunchKernel"'
    assert f'{MODE}{{{own},mode="duty",probe="cuda"}} 1.0' in line.page()
    assert f'{RATIO}{{{own},probe="cuda"}} 0.007' in line.page()


def test_they_are_samples_of_the_live_window_and_an_old_mode_goes_stale(line: Line) -> None:
    first = line.flush(1, mode("full"))
    second = line.flush(2, mode("duty"))
    full, duty = (
        next(each for each in second if each.get("mode") == name) for name in ("full", "duty")
    )
    assert first[full] == 1
    assert second[duty] == 1
    assert np.isnan(second[full])
    assert not [each for each in line.page() if 'mode="full"' in each]


def test_what_a_probe_no_longer_says_is_gone(line: Line) -> None:
    line.flush(1, mode("full"))
    line.flush(2)
    assert not [each for each in line.page() if each.startswith(MODE)]


def test_what_is_of_a_process_or_has_another_name_is_not_the_agents_own(line: Line) -> None:
    line.flush(1, Level("load", None, 2.0), Level(RATIO, Process(1, 1), 0.5))
    assert not [each for each in line.page() if each.startswith(("load", RATIO))]


def test_a_probe_may_call_its_labels_what_it_likes(line: Line) -> None:
    line.flush(1, Level(MODE, None, 1.0, (("name", "x"), ("value", "y"))))
    assert f'{MODE}{{name="x",value="y"}} 1.0' in line.page()
