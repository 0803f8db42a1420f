"""What the maps hold becomes what each process did since it was looked at last."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.readings import Level
from probes.functions.owners import Owners
from probes.nccl.accounts import NANOSECONDS, Account, operation
from probes.nccl.budget import Budget
from probes.nccl.records import Clock
from probes.nccl.snapshot import Maps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.readings import Count, Process, Reading
    from probes.bpf.loader import BpfObject
    from probes.functions.sites import FunctionSites
    from probes.nccl.plugins import Plugins
    from probes.nccl.settings import NcclSettings
    from probes.nccl.snapshot import Snapshot, View


class Settlement:
    """Reads and clears the maps, within the budget. One thread uses it.

    Every reading that it gives must be emitted: what was told is not told again.
    """

    def __init__(
        self, bpf: BpfObject, sites: FunctionSites, plugins: Plugins, settings: NcclSettings
    ) -> None:
        self._settings = settings
        self._budget = Budget(sites, plugins, settings.budget, self._close_clocks)
        self._accounts: dict[int, Account] = {}
        self._unowned: list[Count] = []
        self.maps = Maps(bpf)
        self.owners = Owners()

    def poll(self) -> None:
        """Begin and end the budget's slices that are due."""
        self._budget.poll(self._add_up)

    def flush(self) -> Iterator[Reading]:
        """What everybody did."""
        snapshot, now = self._look()
        for view in snapshot.views.values():
            self._advance(view)
        self._budget.step()
        for view in snapshot.views.values():
            yield from self._settle(view, now)
        yield from self._budget.levels()
        yield from self._open_initialisations(snapshot, now)
        self.owners.forget()

    def bury(self, gone: Collection[Process]) -> Iterator[Reading]:
        """The last of processes that ended."""
        snapshot, now = self._look()
        for view in snapshot.views.values():
            if self._owner(view) in gone:
                view.ended = True
                self._advance(view)
                yield from self._settle(view, now)
        for process in gone:
            yield from self._tell(process)
            self._budget.forget(process)
            self.owners.leave(process)

    def close(self) -> None:
        """Leave the budget to others."""
        self._budget.close()

    def _look(self) -> tuple[Snapshot, int]:
        # Before the maps are read: a wait that begins in between is then zero, never negative.
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        snapshot = self.maps.read()
        self.owners.refresh({v.process.tgid: born for born, v in snapshot.views.items()})
        return snapshot, now

    def _owner(self, view: View) -> Process | None:
        return self.owners.at(view.process.tgid, view.process.born)

    def _account(self, view: View) -> Account:
        born = view.process.born
        return self._accounts.setdefault(born, Account(settled=born))

    def _add_up(self) -> None:
        for view in self.maps.read().views.values():
            self._advance(view)

    def _advance(self, view: View) -> None:
        """Add what was called since to the totals that the budget keeps."""
        process = self._owner(view)
        deltas = self._account(view).advance(view, self._settings.communicators)
        for op, delta in deltas.items():
            if process is not None:
                self._budget.add(process, op, delta)
            else:
                self._unowned += operation(None, op, delta)
        if process is not None:
            self._budget.weigh(process, view.process)

    def _tell(self, process: Process) -> Iterator[Count]:
        for op, delta in self._budget.take(process):
            yield from operation(process, op, delta)

    def _settle(self, view: View, now: int) -> Iterator[Reading]:
        unowned, self._unowned = self._unowned, []
        yield from unowned
        process = self._owner(view)
        account = self._account(view)
        self._reap_threads(view, account)
        if process is not None:
            yield from account.rank(view, process)
            yield from self._tell(process)
        yield from account.settle(view, process)
        known, kernels = self._budget.sees_waits, self._budget.sees_kernels
        yield from account.waits(view, process, now, known=known, kernels=kernels)
        if view.ended:
            self.maps.forget(view)
            del self._accounts[view.process.born]
        elif process is not None:
            yield from account.levels(view, process, self._settings.communicators)

    def _close_clocks(self) -> None:
        """Hooks were taken away: what is open now would never end."""
        for view in self.maps.read().views.values():
            self._account(view).abandon(view, *Clock)
            for kind in Clock:
                self.maps.stop_clock(view.process.born, kind)
            for place, record in view.threads.items():
                if record.wait_frame:
                    self.maps.forget_thread(*place)

    def _reap_threads(self, view: View, account: Account) -> None:
        """A thread that ended in a wait never leaves it."""
        if view.ended:
            return
        dead = [place for place in view.threads if not self.owners.runs(*place)]
        waiting = sum(bool(record.wait_frame) for record in view.threads.values())
        stuck = sum(bool(view.threads[place].wait_frame) for place in dead)
        for place in dead:
            self.maps.forget_thread(*place)
            del view.threads[place]
        if stuck:
            if waiting == stuck:
                account.abandon(view, Clock.WAITING, Clock.EXPOSED)
            self.maps.set_waiting(view.process.born, waiting - stuck)

    def _open_initialisations(self, snapshot: Snapshot, now: int) -> Iterator[Level]:
        for view in snapshot.views.values():
            process = self._owner(view)
            since = view.open_initialisations(snapshot.pending)
            if process is not None and since:
                seconds = max(0, now - min(since)) / NANOSECONDS
                yield Level("nccl_init_open_seconds", process, seconds)
