"""Follows which processes map the libraries that anybody asks for; one watch serves all probes.

One sweep over /proc at start; afterwards only processes that the hook names are looked at. Swept
again: everything when the hook lost some, when a subscriber names other libraries and every ten
minutes (linkers of containers that are gone are let go; every half minute where there is no hook);
processes never seen before when a file seems to have lost its last user, because a forked process
maps it too and touches no linker. Sweeps have a budget of looks, so that a node of 10,000 processes
costs no more in a poll than one of 500.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.libraries.ends import Ends
from probes.libraries.executables import Executables
from probes.libraries.limits import Limits
from probes.libraries.maps import PROC, LibraryNames, Mapped, identify, read_maps, threads
from probes.libraries.parents import Parents
from probes.libraries.subscription import Subscription
from probes.libraries.sweep import GONE_COST, Sweeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from engine.readings import Process
    from probes.bpf.errors import UnavailableError
    from probes.libraries.hook import Hook
    from probes.libraries.maps import FileKey

LINKERS = ("ld-linux", "ld-musl", "ld-2.", "ld64.so", "ld.so")
# How old a refresh may be that serves another subscriber, in seconds.
STALE_SECONDS = 0.1


class LibraryWatch:
    """See the module. One thread uses it. `hook_error` says why there is no hook."""

    def __init__(
        self,
        *,
        hook: Hook | None,
        hook_error: UnavailableError | None = None,
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
        limits: Limits | None = None,
    ) -> None:
        self.hook_error = hook_error
        self.limits = limits or Limits()
        self._hook = hook
        self._proc = proc
        self._clock = clock
        self._ends = Ends(proc)
        self._subscriptions: list[Subscription] = []
        self.executables = Executables(proc)
        self._names = LibraryNames()
        self._linker_names = LibraryNames(*LINKERS)
        self._known: dict[int, Process] = {}
        self._mapped: dict[Process, tuple[Mapped, ...]] = {}
        # How often maps were read.
        self.looks = 0
        self._unreadable: set[int] = set()
        self._pending: dict[int, None] = {}
        self._new_linker: dict[int, float] = {}
        self._parents = Parents()
        self._threads: dict[Process, frozenset[int]] = {}
        self._sweeper = Sweeper(Procfs(proc), self.limits, clock())
        self._doubts = 0
        self._served = 0
        self._refreshed = clock()
        self._due = True

    def subscribe(self, *names: str) -> Subscription:
        """Follow files of these names, too: beginnings, or globs (see LibraryNames)."""
        subscription = Subscription(self, names)
        self._subscriptions.append(subscription)
        self._rename()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Follow its files no longer."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._rename()

    @property
    def confirmed(self) -> int:
        """The doubts about last users that sweeps have settled."""
        return self._sweeper.confirmed

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    @property
    def watched(self) -> int:
        """Processes that map a library that somebody asks for."""
        return len(self._known)

    @property
    def unreadable(self) -> int:
        """Processes whose maps may not be read."""
        return len(self._unreadable)

    @property
    def unreadable_pids(self) -> list[int]:
        """Their pids."""
        return sorted(self._unreadable)

    @property
    def deaf(self) -> str:
        """Why execs are not heard, "" when they are."""
        return self._hook.deaf if self._hook is not None else ""

    def close(self) -> None:
        """Detach everything."""
        self._ends.close()
        if self._hook is not None:
            self._hook.close()

    def serve(self, subscription: Subscription) -> None:
        """Refresh, unless it was done for another subscriber a moment ago."""
        waited = self._clock() - self._refreshed
        stale = waited > STALE_SECONDS
        if self._due or stale or subscription.served == self._served:
            self.refresh()
        subscription.served = self._served

    def refresh(self) -> None:
        """Notice ends, drain the hook, look at what it named, and go on with a sweep."""
        now = self._clock()
        self._sweeper.renew(self.limits, now)
        self._refreshed = now
        self._due = False
        self._served += 1
        self._threads.clear()
        self.executables.begin(self.limits.programs_per_poll, self.limits.max_programs)
        # Before those that ended are forgotten: a child may have outlived the one that forked it.
        lost = self._hear()
        for process in self._ends.ended():
            self._end(process)
        many = len(self._pending) > self.limits.max_pending
        if lost or many or self._sweeper.is_due(now):
            self._begin_sweep(now)
        self._look_at_pending(now)
        self._go_on_sweeping()
        if self._sweeper.current is None and self._doubts > self.confirmed:
            self._sweeper.begin(self._doubts)
            self._go_on_sweeping()

    def _hear(self) -> bool:
        """Note whom the hook names; whether it lost some."""
        if self._hook is None:
            return False
        heard = self._hook.drain()
        self._pending.update(dict.fromkeys(heard.touched))
        for pid in heard.executed:
            self._parents.forget(pid)
        for pid, by in heard.forked.items():
            parent = self._known.get(by)
            # A thread has its place below its process as long as it lives.
            if parent is None or pid in self.threads(parent):
                continue
            self._parents.note(pid, parent, self.limits.max_pending)
            self._pending[pid] = None
        return heard.lost

    def parent(self, pid: int) -> Process | None:
        """The watched process that forked this pid, if it runs no program of its own since.

        For counts of a child that came and went between two polls: it has its parent's environment,
        so its task and rank are its parent's.
        """
        return self._parents.of(pid)

    def look(self, pid: int) -> tuple[Mapped, ...]:
        """Look at one process now; returns what it maps for anybody, linkers included."""
        return self._look(pid) or ()

    def _look(self, pid: int) -> tuple[Mapped, ...] | None:
        """None: there is no such process."""
        process = identify(pid, self._proc)
        before = self._known.get(pid)
        if before is not None and before != process:
            self._end(before)
        if process is None:
            return None
        self._sweeper.note(pid, process.start_ticks)
        try:
            self.looks += 1
            maps = read_maps(pid, self._proc)
        except PermissionError:
            self._unreadable.add(pid)
            return ()
        except OSError:
            return ()
        self._unreadable.discard(pid)
        mapped = self._names.mapped_in(maps, pid)
        linkers = [each for each in mapped if self._linker_names.match(each.name)]
        self._listen(linkers)
        if not linkers:
            self._note_program(pid, maps)
        self._update(process, tuple(each for each in mapped if each not in linkers))
        return mapped

    def identify(self, pid: int) -> Process | None:
        """The process that has this pid: as of the last refresh if it is watched, else read."""
        return self._known.get(pid) or identify(pid, self._proc)

    def threads(self, process: Process) -> frozenset[int]:
        """The threads of a process, read once per refresh; empty when it is gone."""
        found = self._threads.get(process)
        if found is None:
            found = threads(process.pid, self._proc)
            if process.pid not in self._known and identify(process.pid, self._proc) != process:
                found = frozenset()
            self._threads[process] = found
        return found

    def example(self, key: FileKey, users: Iterable[Process]) -> Mapped:
        """A file as one of its users maps it, a living one if there is any: it is to be opened."""
        known = sorted(users)
        alive = (each for each in known if identify(each.pid, self._proc) == each)
        process = next(alive, known[0])
        return next(each for each in self._mapped[process] if each.key == key)

    def _rename(self) -> None:
        wanted = [name for each in self._subscriptions for name in each.names.names]
        self._names = LibraryNames(*dict.fromkeys([*wanted, *LINKERS]))
        self._sweeper.hasten()
        self._due = True

    def _look_at_pending(self, now: float) -> None:
        self._new_linker = {pid: until for pid, until in self._new_linker.items() if until > now}
        self._pending.update(dict.fromkeys(self._new_linker))
        left = float(self.limits.looks_per_poll)
        for pid in list(self._pending):
            if left < 1:
                break
            del self._pending[pid]
            left -= GONE_COST if self._look(pid) is None else 1

    def _note_program(self, pid: int, maps: bytes) -> None:
        program = self.executables.note(pid, maps)
        if program is not None and self._sweeper.current is not None:
            self._sweeper.current.programs.add(program)

    def _listen(self, linkers: list[Mapped]) -> None:
        for linker in linkers:
            if self._sweeper.current is not None:
                self._sweeper.current.linkers.add(linker.key)
            if self._hook is not None and self._hook.add(linker):
                until = self._clock() + self.limits.acquaintance_seconds
                self._new_linker[linker.pid] = until

    def _update(self, process: Process, libraries: tuple[Mapped, ...]) -> None:
        if libraries and process.pid not in self._known:
            self._known[process.pid] = process
            self._ends.add(process)
            if self._hook is not None:
                self._hook.follow(process.pid)
        if libraries:
            self._mapped[process] = libraries
            self._tell(process, libraries)
        elif process in self._mapped:
            self._end(process)

    def _tell(self, process: Process, libraries: tuple[Mapped, ...]) -> None:
        doubt = self._doubts + 1
        for each in self._subscriptions:
            if each.update(process, libraries, doubt):
                self._doubts = doubt

    def _end(self, process: Process) -> None:
        """It ended, or maps nothing of interest any more."""
        if self._known.pop(process.pid, None) is not None and self._hook is not None:
            self._hook.unfollow(process.pid)
        self._mapped.pop(process, None)
        self._new_linker.pop(process.pid, None)
        self._ends.discard(process)
        self._tell(process, ())

    def _begin_sweep(self, now: float) -> None:
        hooked, limits = self._hook is not None, self.limits
        every = limits.sweep_seconds if hooked else limits.sweep_seconds_without_hook
        self._pending.clear()
        self._unreadable &= self._sweeper.begin_whole(self._doubts, now + every)

    def _go_on_sweeping(self) -> None:
        done = self._sweeper.go_on(lambda pid: self._look(pid) is not None)
        if done is not None and done.whole:
            if self._hook is not None:
                self._hook.keep_only(done.linkers)
            self.executables.keep_only(done.programs)
