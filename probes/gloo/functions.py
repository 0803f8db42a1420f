"""What is probed, in either library, and under which slots it is counted."""

from __future__ import annotations

from probes.functions.function import Function

LIBRARIES = ("libtorch_cpu.so", "libgloo.so")
RECV, SEND, CONNECT, FAILURE = "wait_recv", "wait_send", "connect", "failure"
SLOTS = (RECV, SEND, CONNECT, FAILURE)

_TCP = "gloo::transport::tcp"
_SYMBOLS = {
    RECV: (f"{_TCP}::UnboundBuffer::waitRecv", f"{_TCP}::Buffer::waitRecv"),
    SEND: (f"{_TCP}::UnboundBuffer::waitSend", f"{_TCP}::Buffer::waitSend"),
    CONNECT: (
        "gloo::rendezvous::Context::connectFullMesh",
        "gloo::rendezvous::ContextFactory::makeContext",
    ),
}
_PROGRAMS = {RECV: "recv", SEND: "send", CONNECT: "connect"}


def _functions(library: str) -> tuple[Function, ...]:
    # Two Functions of one slot have names of their own only where a second library needs it.
    suffix = "" if library == LIBRARIES[0] else f" of {library}"
    timed = tuple(
        Function(
            slot + suffix,
            library,
            symbols,
            f"enter_{_PROGRAMS[slot]}",
            f"leave_{_PROGRAMS[slot]}",
            mark=f"count_{_PROGRAMS[slot]}",
            optional=True,
        )
        for slot, symbols in _SYMBOLS.items()
    )
    group = Function(
        f"group{suffix}", library, ("gloo::Context::Context",), "enter_group", optional=True
    )
    return (*timed, group)


FUNCTIONS = (
    *(each for library in LIBRARIES for each in _functions(library)),
    Function(
        FAILURE,
        LIBRARIES[0],
        ("c10d::ProcessGroupGloo::AsyncWork::finishWorkGlooError",),
        "count_failure",
        optional=True,
    ),
)
