"""Real sockets of real processes: who holds them, also after they were passed on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.tcp_retransmit.holding import Holding

if TYPE_CHECKING:
    from collections.abc import Iterable

FORKS = (
    "import os, socket, sys, time\n"
    "s = socket.socket()\n"
    "child = os.fork()\n"
    "if not child: time.sleep(60)\n"
    "print(child, os.fstat(s.fileno()).st_ino, flush=True)\n"
    "sys.stdin.readline()\n"
    "s.close()\n"
    "print('closed', flush=True)\n"
    "sys.stdin.read()\n"
)


def test_of_several_holders_the_one_that_forked_owns_a_socket_until_it_closes_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        child, inode = map(int, parent.stdout.readline().split())
        holding = Holding()
        holding.refresh({inode}, [child, parent.pid])
        assert holding.get(inode) == Procfs().identify(parent.pid)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "closed\n"
        holding.refresh({inode}, [])  # found among all processes
        assert holding.get(inode) == Procfs().identify(child)
        holding.refresh(set(), [])
        assert holding.get(inode) is None
        os.kill(child, signal.SIGKILL)
        parent.communicate("")


def test_a_socket_that_nobody_holds_is_not_searched_for_at_every_look() -> None:
    searched: list[set[int]] = []

    class Watched(Holding):
        def _search(self, missing: set[int], pids: Iterable[int]) -> set[int]:
            if missing:
                searched.append(set(missing))
            return super()._search(missing, pids)

    holding = Watched()
    for _ in range(7):
        holding.refresh({1}, [])
    assert searched == [{1}] * 4  # twice two: among the likely, then among all
