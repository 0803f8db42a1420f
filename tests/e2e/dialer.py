"""A process that opens and closes connections as it is told on standard input, one word a line.

    connect ADDRESS PORT        blocks; answers the seconds it took, or the error's name
    impatient ADDRESS PORT S    gives up after S seconds
    send N                      N bytes on the newest connection
    stuff                       as much as fits, to a peer that does not read
    pass N                      hands the newest connection to a child by SCM_RIGHTS, which sends
    fork N                      a forked child sends N bytes on the newest connection
    close                       closes the newest connection
Each command is answered with one line.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    open_sockets: list[socket.socket] = []
    for line in sys.stdin:
        word, *rest = line.split()
        print(COMMANDS[word](open_sockets, *rest), flush=True)


def connect(sockets: list[socket.socket], address: str, port: str, patience: str = "") -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    dialed = socket.socket(family, socket.SOCK_STREAM)
    if patience:
        dialed.settimeout(float(patience))
    began = time.monotonic()
    try:
        dialed.connect((address, int(port)))
    except TimeoutError:
        dialed.close()
        return "ETIMEDOUT"
    except OSError as error:
        dialed.close()
        return errno.errorcode[error.errno or 0]
    sockets.append(dialed)
    return str(time.monotonic() - began)


def send(sockets: list[socket.socket], count: str) -> str:
    send_all(sockets[-1], int(count))
    return "sent"


def send_all(connection: socket.socket, count: int) -> None:
    for at in range(0, count, 1 << 14):
        connection.sendall(bytes(min(1 << 14, count - at)))


def stuff(sockets: list[socket.socket], _count: str) -> str:
    sockets[-1].setblocking(False)
    try:
        while True:
            sockets[-1].send(bytes(1 << 14))
    except BlockingIOError:
        return "full"


def fork(sockets: list[socket.socket], count: str) -> str:
    child = os.fork()
    if child == 0:
        send_all(sockets[-1], int(count))
        time.sleep(1000)
    return str(child)


def hand_on(sockets: list[socket.socket], count: str) -> str:
    near, far = socket.socketpair()
    child = os.fork()
    if child == 0:
        near.close()
        for each in sockets:
            each.close()
        _, (fd, *_), _, _ = socket.recv_fds(far, 1, 1)
        received = socket.socket(fileno=fd)
        send_all(received, int(count))
        time.sleep(1000)
    socket.send_fds(near, [b"x"], [sockets[-1].fileno()])
    sockets.pop().close()
    return str(child)


def close(sockets: list[socket.socket]) -> str:
    sockets.pop().close()
    return "closed"


COMMANDS: dict[str, Callable[..., str]] = {
    "connect": connect,
    "impatient": connect,
    "send": send,
    "stuff": stuff,
    "fork": fork,
    "pass": hand_on,
    "close": close,
}

if __name__ == "__main__":
    main()
