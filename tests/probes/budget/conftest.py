"""A world in which loads call a function, and time passes only where it is told to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from probes.budget.governor import Governor
from probes.budget.ledger import Ledger
from probes.budget.pool import Pool
from probes.budget.traps import TrapCosts

if TYPE_CHECKING:
    from engine.readings import Process
    from probes.budget.settings import BudgetConfig
    from probes.sampling.addresses import Span

FLUSH_SECONDS = 10.0
ATTACH_SECONDS, READ_SECONDS, DETACH_SECONDS = 0.015, 0.002, 0.2
# 20,000 traps a second are 10 % of a core.
TRAP_SECONDS = 5e-6
COSTS = TrapCosts(TRAP_SECONDS, TRAP_SECONDS, TRAP_SECONDS, measured=True)
WORK_SECONDS = 10e-6

Load = Callable[[float], float]
"""How many calls were made by a time."""


@dataclass(frozen=True)
class Named:
    name: str
    colder: tuple[str, ...] = ()


@dataclass
class SampleClock:
    """A sampler that finds every process in every function for a quarter of its time."""

    world: World
    watched: set[tuple[Process, object]] = field(default_factory=set)

    def available(self) -> bool:
        return True

    def watch(self, process: Process, key: object, _: object) -> bool:
        self.watched.add((process, key))
        return True

    def counts(self, *_: object) -> tuple[int, int]:
        return int(25 * self.world.now), int(100 * self.world.now)

    def forget(self, process: Process, key: object) -> None:
        self.watched.remove((process, key))

    def rest(self) -> None:
        pass

    def cores(self) -> float:
        return 1e-4

    def levels(self) -> list[object]:
        return []


@dataclass
class World:
    """Loads by (function, process), a clock, and sites that count only while attached."""

    loads: dict[tuple[str, Process], Load]
    now: float = 1000.0
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    suspended: dict[str, float] = field(default_factory=dict)
    cores: float = 1.0
    changes: list[tuple[float, str, str]] = field(default_factory=list)
    _seen: dict[tuple[str, Process], float] = field(default_factory=dict)
    _at: float = 1000.0
    raw: dict[tuple[str, Process], float] = field(default_factory=dict)
    pool: Pool = field(default_factory=Pool)
    places: tuple[Span, ...] = ()
    # Of a CPU, all that the others leave to the process; a call takes it WORK_SECONDS.
    left: float = 1.0
    # All calls, watched or not.
    made: dict[tuple[str, Process], float] = field(default_factory=dict)

    def clock(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        """Time goes on; what is attached is counted."""
        begin, self.now = self.now, self.now + seconds
        for key, load in self.loads.items():
            until = self.suspended.get(key[0], float("inf"))
            end = max(begin, min(self.now, until))
            watched = load(end) - load(begin)
            if self.left < 1.0:
                watched = min(watched, self.left * (end - begin) / (WORK_SECONDS + TRAP_SECONDS))
            if end > begin:
                self.raw[key] = self.raw.get(key, 0.0) + watched
            self.made[key] = self.made.get(key, 0.0) + watched + load(self.now) - load(end)

    def read(self) -> dict[tuple[str, Process], tuple[float, ...]]:
        self.pass_(READ_SECONDS / 2)
        totals: dict[tuple[str, Process], tuple[float, ...]] = {
            key: (calls, 3 * calls) for key, calls in self.raw.items()
        }
        self.pass_(READ_SECONDS / 2)
        return totals

    def suspend(self, name: str) -> None:
        # What is detached in the background goes on counting for a while.
        self.suspended[name] = self.now + DETACH_SECONDS

    def resume(self, name: str) -> None:
        self.pass_(ATTACH_SECONDS)
        self.suspended.pop(name, None)

    def attached(self, name: str) -> int:
        return 0 if name in self.suspended else 1

    def trap_codes(self, name: str) -> list[bytes]:
        return [b"\x55", b"\xc3"]

    def spans(self, name: str) -> list[Span]:
        return list(self.places)

    def turns(self, process: Process) -> dict[int, tuple[int, int]]:
        """It would always run if it could."""
        ran = int(self.left * self.now * 1e9)
        return {process.pid: (ran, int(self.now * 1e9) - ran)}

    def used(self, process: Process) -> float:
        return self.now * self.cores

    def governor(self, functions: tuple[Named, ...], settings: BudgetConfig) -> Governor:
        return Governor(
            "cuda",
            self,
            functions,
            settings,
            costs=lambda: COSTS,
            clock=self.clock,
            chance=self.chance,
            used=self.used,
            ledger=Ledger(born=lambda process: process.start_ticks / 100),
            pool=self.pool,
            sampler=cast("Any", SampleClock(self)),
            turns=self.turns,
        )

    def run(self, governor: Governor, seconds: float, *others: Governor) -> None:
        """The collector: polls twice a second, steps every ten."""
        end = self.now + seconds
        following = self.now + FLUSH_SECONDS
        while self.now < end:
            flush = self.now >= following
            for each in (governor, *others):
                read = partial(self.read_of, frozenset(each.modes()))
                each.poll(read)
                for decision in each.step(read()) if flush else ():
                    self.changes.append((self.now, decision.function, decision.mode))
            following += FLUSH_SECONDS * flush
            self.pass_(0.5 + self.chance.random() * 0.02)

    def read_of(self, functions: frozenset[str]) -> dict[tuple[str, Process], tuple[float, ...]]:
        """What one probe reads."""
        return {key: raw for key, raw in self.read().items() if key[0] in functions}


@pytest.fixture
def world() -> type[World]:
    return World


@pytest.fixture
def named() -> type[Named]:
    return Named
