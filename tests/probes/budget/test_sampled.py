"""What is told of sampled time while processes load, run other programs, and are sampled again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.readings import Count, Level, Process
from probes.budget.sampled import BOUND, Sampled
from probes.libraries.maps import FileKey
from probes.sampling.addresses import Span

if TYPE_CHECKING:
    from collections.abc import Hashable

    from probes.sampling.addresses import Region

ONE = Process(7, 90_000)
SPAN = Span(FileKey("8:1", 5), 0x1000, 64)


@dataclass
class Job:
    """A process whose every tenth sample lies in the function, where that was said to be."""

    cpu: float = 100.0
    base: int = 0x7F0000000000
    samples: int = 0
    inside: int = 0
    watched: dict[Hashable, list[Region]] = field(default_factory=dict)

    def maps(self, _: int) -> bytes:
        return f"{self.base:x}-{self.base + 0x2000:x} r-xp 00000000 8:1 5 /lib/hot.so\n".encode()

    def use(self, seconds: int) -> None:
        self.cpu += seconds
        self.samples += 100 * seconds
        for places in self.watched.values():
            self.inside += 10 * seconds * (places[0].start == self.base + SPAN.offset)

    def watch(self, _: Process, key: Hashable, places: list[Region]) -> bool:
        self.watched[key] = places
        return True

    def counts(self, *_: object) -> tuple[int, int]:
        return self.inside, self.samples

    def forget(self, _: Process, key: Hashable) -> None:
        del self.watched[key]

    def rest(self) -> None:
        pass

    def cores(self) -> float:
        return 1e-4

    def levels(self) -> list[Level]:
        return []


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    here = Job()
    monkeypatch.setattr("probes.budget.sampled.maps_of", here.maps)
    return here


def sampled_of(job: Any) -> Sampled:
    return Sampled("demo", lambda _: [SPAN], lambda _: job.cpu, job)


def told(sampled: Sampled) -> tuple[float, float]:
    """More seconds, and the bound of all."""
    readings = list(sampled.readings())
    (count,) = (each.delta for each in readings if isinstance(each, Count))
    (bound,) = (e.value for e in readings if isinstance(e, Level) and e.metric == BOUND)
    return count, bound


def test_time_in_a_library_that_was_loaded_elsewhere_meanwhile_is_in_the_bound(job: Job) -> None:
    sampled = sampled_of(job)
    sampled.begin("hot")
    sampled.step([ONE])
    job.use(1000)
    sampled.step([ONE])
    seconds, narrow = told(sampled)
    assert seconds == pytest.approx(100)
    job.base += 0x100000
    job.use(50)  # five of them in the function, and nobody saw that
    sampled.step([ONE])
    more, bound = told(sampled)
    assert more == 0
    assert bound == pytest.approx(narrow + 50)
    job.use(1000)
    sampled.step([ONE])
    more, wide = told(sampled)
    assert more == pytest.approx(100)
    assert bound < wide < bound + 20


def test_the_bound_of_an_earlier_sampling_stays_as_long_as_its_seconds(job: Job) -> None:
    sampled = sampled_of(job)
    bounds = []
    for _ in range(3):
        sampled.begin("hot")
        sampled.step([ONE])
        job.use(1000)
        sampled.step([ONE])
        bounds.append(told(sampled)[1])
        sampled.end("hot")
    assert bounds == pytest.approx([bounds[0], 2 * bounds[0], 3 * bounds[0]])
    sampled.forget(ONE)
    sampled.begin("hot")
    sampled.step([ONE])
    assert told(sampled) == (0, 0)
