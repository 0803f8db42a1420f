"""Network namespaces: which there are, and asking inside one without moving the agent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")


def network_namespace(pid: int | str) -> int | None:
    """Inode of a process's network namespace; None when it is gone or closed to us."""
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None


def shared_namespaces() -> set[int]:
    """The node's own namespaces, which tasks share: init's and the agent's."""
    return {inode for pid in (1, "self") if (inode := network_namespace(pid)) is not None}


def namespaces_of(pids: Iterable[int]) -> dict[int, int]:
    """Namespaces by inode, each with one process that lives in it."""
    found: dict[int, int] = {}
    for pid in pids:
        inode = network_namespace(pid)
        if inode is not None:
            found.setdefault(inode, pid)
    return found


def visit(namespaces: Mapping[int, int], ask: Callable[[], _T]) -> tuple[dict[int, _T], int]:
    """Call `ask` in each namespace: (answers by inode, how many could not be entered).

    A thread of its own enters them, and ends: setns(2) moves one thread, and a thread or socket
    that stayed behind would keep a dead container's namespace alive.
    """
    answers: dict[int, _T] = {}
    refused: list[int] = []

    def run() -> None:
        here = network_namespace("thread-self")
        for inode, pid in namespaces.items():
            try:
                if inode != here:
                    _enter(pid)
                    here = inode
                answers[inode] = ask()
            except OSError:  # noqa: PERF203 - one namespace's end must not hide the others
                # Gone meanwhile, or not permitted: counted, and the caller reports it.
                refused.append(inode)

    thread = threading.Thread(target=run, name="stallwatch-netns")
    thread.start()
    thread.join()
    return answers, len(refused)


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(fd)


def may_enter() -> bool:
    """Whether setns(2) into a network namespace is permitted (CAP_SYS_ADMIN): tried on our own."""
    outcome: list[bool] = []

    def run() -> None:
        with contextlib.suppress(OSError):
            _enter(os.getpid())
            outcome.append(True)

    thread = threading.Thread(target=run, name="stallwatch-netns")
    thread.start()
    thread.join()
    return bool(outcome)


def socket_inodes(pid: int) -> dict[int, str]:
    """Sockets that a process holds, by inode, with a link to each; empty when closed to us."""
    inodes: dict[int, str] = {}
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115 - thousands in a scan
                if target.startswith("socket:["):
                    inodes[int(target[8:-1])] = entry.path
    return inodes
