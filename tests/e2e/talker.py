"""A process that sends and receives over one TCP connection: ADDRESS PORT MEGABYTES ROLE [hold].

With `hold` it says `connected` and waits for a line before it sends anything.
Both ends send at once. `done` is printed when both directions are through; the socket stays open
until a line (or the end) arrives on standard input.
"""

from __future__ import annotations

import socket
import sys
import threading


def main() -> None:
    address, port, megabytes, role = sys.argv[1:5]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    end = (address, int(port))
    if role == "listen":
        with socket.create_server(end, family=family) as listener:
            print("listening", flush=True)
            connection, _ = listener.accept()
    else:
        connection = socket.create_connection(end)
    if sys.argv[5:] == ["hold"]:
        print("connected", flush=True)
        sys.stdin.readline()
    total = int(megabytes) << 20
    sender = threading.Thread(target=send, args=(connection, total))
    sender.start()
    receive(connection, total)
    sender.join()
    print("done", flush=True)
    sys.stdin.readline()
    connection.close()


def send(connection: socket.socket, total: int) -> None:
    block = bytes(1 << 16)
    for _ in range(0, total, len(block)):
        connection.sendall(block)


def receive(connection: socket.socket, total: int) -> None:
    while total > 0:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the other end closed early")
        total -= len(data)


if __name__ == "__main__":
    main()
