"""Calls a real libnccl, whose path it is given, where no GPU is: a word a line, an answer a line.

Every call fails, with its arguments passed as a job passes them.
"""

from __future__ import annotations

import ctypes
import os
import sys

FLOAT64, BFLOAT16 = 8, 9


class UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * 128),)


def pointer(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)


def main(path: str) -> None:
    nccl = ctypes.CDLL(path)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    nccl.ncclCommInitRankConfig.argtypes = [*nccl.ncclCommInitRank.argtypes, ctypes.c_void_p]
    identity = UniqueId()
    ctypes.memset(ctypes.byref(identity), 7, ctypes.sizeof(identity))
    out, none = ctypes.c_void_p(), pointer(0)
    # Newer libraries tell by a mark that this is no communicator; older ones look into it.
    nothing = ctypes.create_string_buffer(1 << 20)
    count = ctypes.c_size_t

    def collectives(communicator: ctypes.c_void_p) -> list[int]:
        send, receive = pointer(8), pointer(16)
        reduced = (send, receive, count(1000), FLOAT64, 0, communicator, none)
        rooted = (send, receive, count(1001), BFLOAT16, 0, communicator, none)
        return [
            nccl.ncclAllReduce(*reduced),
            nccl.ncclReduceScatter(*reduced),
            nccl.ncclAllGather(send, receive, count(1002), 6, communicator, none),
            nccl.ncclBroadcast(*rooted),
            nccl.ncclBcast(receive, count(1003), 0, 0, communicator, none),
            nccl.ncclReduce(send, receive, count(1004), 7, 0, 0, communicator, none),
            nccl.ncclSend(send, count(1005), 4, 1, communicator, none),
            nccl.ncclRecv(receive, count(1006), 10, 1, communicator, none),
        ]

    print(os.getpid(), flush=True)
    for line in sys.stdin:
        word = line.strip()
        answer: object = None
        if word == "init":
            answer = nccl.ncclCommInitRank(ctypes.byref(out), 8, identity, 5)
        if word == "init_config":
            answer = nccl.ncclCommInitRankConfig(ctypes.byref(out), 16, identity, 9, none)
        if word == "collectives":
            answer = collectives(none)
        if word == "collectives_with":
            answer = collectives(pointer(ctypes.addressof(nothing)))
            answer = f"{ctypes.addressof(nothing)} {answer}"
        if word == "new":
            send, receive = pointer(8), pointer(16)
            moved = (send, receive, count(1007), 7, none, none)
            rooted = (send, receive, count(1008), 7, 0, none, none)
            answer = [nccl.ncclAlltoAll(*moved), nccl.ncclGather(*rooted)]
            answer += [nccl.ncclScatter(*rooted)]
            config = (send, receive, count(1009), 7, 0, none, none, none)
            answer += [nccl.ncclAllReduceConfig(*config)]
        print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
