"""Accepts connections at ADDRESS PORT and reads all that comes; `deaf` and `rude` read nothing.

`rude` waits for data, leaves it unread and closes: the kernel then resets the connection. The total
read is printed for each line on standard input.
"""

from __future__ import annotations

import socket
import sys
import threading

TOTAL = [0]


def main() -> None:
    address, port, *rest = sys.argv[1:]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, int(port)), family=family, backlog=100)
    take = {"rude": rude, "deaf": deaf}[rest[0]] if rest else read
    threading.Thread(target=accept, args=(listener, take), daemon=True).start()
    print("listening", flush=True)
    for _ in sys.stdin:
        print(TOTAL[0], flush=True)


def accept(listener: socket.socket, take: object) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=take, args=(connection,), daemon=True).start()  # type: ignore[arg-type]


def read(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        TOTAL[0] += len(data)


def deaf(connection: socket.socket) -> None:
    threading.Event().wait()
    connection.close()


def rude(connection: socket.socket) -> None:
    connection.recv(1, socket.MSG_PEEK)
    connection.close()


if __name__ == "__main__":
    main()
