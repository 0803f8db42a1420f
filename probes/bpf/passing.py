"""Messages between the agent and the child that compiles: JSON, and open descriptors (unix(7)).

A message is its length (4 bytes, network order; the descriptors travel with these), then the JSON.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")
_FD_BYTES = array.array("i").itemsize
# One source has about ten programs and twenty maps; the kernel passes 253 at most (SCM_MAX_FD).
MAX_FDS = 253


def send(channel: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """OSError when the other side is gone or does not read in time."""
    body = json.dumps(message).encode()
    socket.send_fds(channel, [_LENGTH.pack(len(body))], fds)
    channel.sendall(body)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors, which are the caller's to close.

    EOFError when the other side has closed, OSError (TimeoutError too) as the socket gives it.
    """
    # Not socket.recv_fds: it drops its flags, and the descriptors would be inherited.
    room = socket.CMSG_SPACE(MAX_FDS * _FD_BYTES)
    length, ancillary, _, _ = channel.recvmsg(_LENGTH.size, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    body = b""
    if len(length) < _LENGTH.size:
        raise EOFError("the other side has closed")
    (size,) = _LENGTH.unpack(length)
    while len(body) < size:
        part = channel.recv(size - len(body))
        if not part:
            raise EOFError("the other side has closed in mid-message")
        body += part
    return json.loads(body), list(fds)
