"""Counted calls become readings: what every probe of plain calls does, around what its own mean."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar

from engine.readings import Gone
from probes.bpf.errors import UnavailableError
from probes.functions.followed import Followed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.readings import Event, Pairs, ProbeStatus, Process, Produced, Reading, Watched
    from probes.functions.followed import Description
    from probes.functions.totals import Look, SlowCall


class Report(abc.ABC):
    """What a probe's calls mean. What is not abstract has nothing to say by default.

    `metric`: of its counts of calls, without `_total`; the budget's error bound is named after it.
    """

    metric: ClassVar[str]

    @abc.abstractmethod
    def labels(self, slot: str) -> Pairs:
        """Those of a slot's count of calls."""

    @abc.abstractmethod
    def watched(self, process: Process) -> Watched:
        """A process uses a library now: which counters begin."""

    @abc.abstractmethod
    def counts(self, look: Look) -> Iterable[Reading]:
        """What was called since the last look."""

    @abc.abstractmethod
    def slow(self, call: SlowCall) -> Event:
        """A call took at least its threshold."""

    def records(self) -> Iterable[Reading]:
        """From rings of its own, in every poll, and before a look."""
        return ()

    def before_look(self) -> None:  # noqa: B027 - most have nothing to do
        """A look is about to forget the processes that ended."""

    def ended(self, process: Process, look: Look) -> Iterable[Reading]:  # noqa: ARG002 - for subclasses
        """A process uses no library any more; its last calls were in this look."""
        return ()

    def levels(self, look: Look) -> Iterable[Reading]:  # noqa: ARG002 - for subclasses
        """The present state, once a flush, after its counts."""
        return ()

    def produced(self, told: Produced) -> Produced:
        """With what the program counts besides calls."""
        return told

    def status(self, found: ProbeStatus) -> ProbeStatus:
        """With what only this probe knows to be amiss."""
        return found


class Reporting:
    """A library that is followed, and its report. Raises UnavailableError. One thread uses it."""

    def __init__(
        self,
        name: str,
        description: Description,
        report: Callable[[Followed], Report],
        emit: Callable[[Reading], None],
    ) -> None:
        self.followed = Followed(name, description)
        self._emit = emit
        try:
            self._report = report(self.followed)
        except UnavailableError:
            self.followed.close()
            raise

    @property
    def pending(self) -> int:
        """Functions in files that are still to be attached."""
        return self.followed.pending

    def poll(self) -> None:
        """Follow libraries and hand on events."""
        self._bury(self.followed.poll(self._join))
        self._tell_records()

    def produced(self) -> Produced:
        """The kernel's counters."""
        return self._report.produced(self.followed.produced())

    def collect(self) -> None:
        """Emit what every process did since the last call."""
        self._tell_records()
        self._report.before_look()
        look, gone = self.followed.collect(self._join)
        self._tell(self._report.counts(look))
        self._bury(gone)
        self._tell(self._report.levels(look))
        self._tell(self.followed.budget_levels(self._report.metric, self._report.labels))

    def status(self) -> ProbeStatus:
        """The present state."""
        return self._report.status(self.followed.status())

    def close(self) -> None:
        """Detach."""
        self.followed.close()

    def _join(self, process: Process) -> None:
        self._emit(self._report.watched(process))

    def _bury(self, gone: list[Process]) -> None:
        if not gone:
            return
        self.followed.leave(gone)
        self._tell_records()  # while it is known whose they are
        self._report.before_look()
        look = self.followed.last_words()
        self._tell(self._report.counts(look))
        for process in gone:
            self._tell(self._report.ended(process, look))
            self._emit(Gone(process))

    def _tell_records(self) -> None:
        self._tell(self._report.records())
        self._tell(self._report.slow(call) for call in self.followed.slow())

    def _tell(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self._emit(reading)
