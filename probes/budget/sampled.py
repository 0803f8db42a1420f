"""Functions of one probe in mode `sampled`: CPU time in the function itself, not its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.readings import Count, Level
from probes.sampling.addresses import Region, Span, maps_of, regions_in
from probes.sampling.sampler import AGENT, Sampler
from probes.sampling.spent import Spent, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from engine.readings import Process, Reading

NOTHING = Spent(0.0, 0.0)
SECONDS, BOUND = "function_cpu_seconds_total", "function_cpu_seconds_error_bound"


@dataclass(slots=True)
class _Watched:
    """A function in a process: what was known when its sampling began, and what is shown.

    `until`: CPU time up to which it is known to have lain in `regions`.
    """

    cpu: float
    counts: tuple[int, int]
    regions: list[Region]
    until: float
    now: Spent = NOTHING
    told: float = 0.0

    @property
    def bound(self) -> float:
        """How far off what was told may be. A counter does not fall: it may be ahead, too."""
        return self.now.bound + abs(self.told - self.now.seconds)


class Sampled:
    """Keeps the sampler up to date with the processes that there are. One thread uses it."""

    def __init__(
        self,
        probe: str,
        spans: Callable[[str], Iterable[Span]],
        used: Callable[[Process], float | None],
        sampler: Sampler = AGENT,
    ) -> None:
        self._probe = probe
        self._spans = spans
        self._used = used
        self._sampler = sampler
        self._names: set[str] = set()
        self._watched: dict[tuple[str, Process], _Watched] = {}
        # How far off what was told may be, of samplings that are over.
        self._earlier: dict[tuple[str, Process], float] = {}

    def can(self, name: str) -> bool:
        """Whether it is known where the function lies, and there is a clock."""
        return any(True for _ in self._spans(name)) and self._sampler.available()

    def begin(self, name: str) -> None:
        """The function is in mode `sampled` from now on."""
        self._names.add(name)

    def end(self, name: str) -> None:
        """It is no more."""
        self._names.discard(name)
        for key in [key for key in self._watched if key[0] == name]:
            self._let_go(key)
        self._sampler.rest()

    def step(self, processes: Iterable[Process]) -> dict[Process, float]:
        """Look at the samples, once an interval; what the clock itself takes of each process."""
        known = list(processes) if self._names else []
        for process in known:
            text = maps_of(process.pid)
            for name in self._names:
                self._look(name, process, text)
        return dict.fromkeys(known, self._sampler.cores()) if known else {}

    def forget(self, process: Process) -> None:
        """The process has ended."""
        for key in [key for key in self._watched if key[1] == process]:
            self._let_go(key)
        self._earlier = {key: off for key, off in self._earlier.items() if key[1] != process}
        self._sampler.rest()

    def close(self) -> None:
        """Let go of everything."""
        for key in list(self._watched):
            self._let_go(key)
        self._earlier.clear()
        self._names.clear()
        self._sampler.rest()

    def readings(self) -> Iterator[Reading]:
        """CPU seconds since the last time, with the bound of the whole; what the clock costs."""
        for (name, process), each in self._watched.items():
            labels = ("probe", self._probe), ("function", name)
            more = max(0.0, each.now.seconds - each.told)
            each.told += more
            bound = each.bound + self._earlier.get((name, process), 0.0)
            yield Count(SECONDS, process, more, labels)
            yield Level(BOUND, process, bound, labels, "sum")
        yield from self._sampler.levels()

    def _look(self, name: str, process: Process, text: bytes) -> None:
        used = self._used(process)
        key = (name, process)
        if used is None:
            return
        places = regions_in(text, self._spans(name))
        each = self._watched.get(key)
        if each is not None and each.regions != places:
            # It was loaded anew, or another program is run: since the last look it lay elsewhere.
            self._let_go(key)
            self._earlier[key] += used - each.until
            each = None
        if each is None:
            if self._sampler.watch(process, self._mark(name), places):
                counts = self._sampler.counts(process, self._mark(name))
                self._watched[key] = _Watched(used, counts, places, used)
            return
        inside, samples = self._sampler.counts(process, self._mark(name))
        each.now = spent(used - each.cpu, inside - each.counts[0], samples - each.counts[1])
        each.until = used

    def _mark(self, name: str) -> object:
        return self._probe, name

    def _let_go(self, key: tuple[str, Process]) -> None:
        self._earlier[key] = self._earlier.get(key, 0.0) + self._watched.pop(key).bound
        self._sampler.forget(key[1], self._mark(key[0]))
