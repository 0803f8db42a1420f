"""A pytest plugin for the booted machine: programs are compiled on the host, and loaded here.

It replaces only who compiles: the maps are this kernel's, and its verifier sees every program. The
tests that name a builder (bcc with the stub headers, with the node's own) still run bcc here.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.bpf import bcc, headers, syscall
from probes.bpf.builder import Built
from probes.bpf.compile_child import PROG_TYPE_KPROBE, TRACE_UPROBE_MULTI
from probes.bpf.compiler import COMPILER, Answer
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from probes.bpf.builder import Source

REQUESTS = Path(os.environ.get("STALLWATCH_KERNEL_REQUESTS", "/nonexistent"))
TIMEOUT_SECONDS = 300
PROG_LOAD = 5
# For bcc itself, where a test asks for it.
COMPILER.idle_seconds = 3600.0
COMPILER.timeout_seconds = 600.0
_numbers = itertools.count()


class HostCompiled:
    """A builder: instructions and descriptions of maps come from elsewhere."""

    name = "compiled on the host"

    def build(self, source: Source) -> Built:
        request = bcc.request(source, str(headers.STUBS), bcc.stub_flags())
        answer = _ask(request)
        if "failed" in answer:
            raise bcc.refusal(source.name, Answer(answer, [], ""))
        maps: dict[str, int] = {}
        # A map of maps comes after the ring that it is shown.
        of_maps = syscall.MAP_TYPE_ARRAY_OF_MAPS
        for name, what in sorted(answer["maps"].items(), key=lambda item: item[1][0] == of_maps):
            maps[name] = _create(what, maps.get(f"{name}_ring", 0))
        multi = request["uprobe_multi"]
        built = Built({}, maps)
        for name, program in answer["programs"].items():
            kind = source.programs[name]
            expected = TRACE_UPROBE_MULTI if multi and kind == PROG_TYPE_KPROBE else 0
            try:
                built.program_fds[name] = _load(kind, expected, program, maps)
            except VerifierError as error:
                built.close()
                words = f"{source.name}: {name}: {error}"
                raise UnavailableError("verifier", words, "please report this") from error
        return built


class VerifierError(Exception):
    """The end of the verifier's log."""


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    name = f"{os.getpid()}-{next(_numbers):04}"
    part = REQUESTS / f"{name}.new"
    part.write_text(json.dumps(request), encoding="utf-8")
    part.rename(REQUESTS / f"{name}.json")
    reply = REQUESTS / f"{name}.reply"
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        if reply.exists():
            answer: dict[str, Any] = json.loads(reply.read_text(encoding="utf-8"))
            return answer
        time.sleep(0.1)
    raise TimeoutError(f"the host did not compile within {TIMEOUT_SECONDS} s")


def _create(what: list[int], inner: int) -> int:
    attr = struct.pack("=6I", *what, 0, inner)
    return syscall.bpf(syscall.MAP_CREATE, attr + bytes(48))[0]


def _load(kind: int, expected: int, program: dict[str, Any], maps: dict[str, int]) -> int:
    code = bytearray.fromhex(program["code"])
    for at, name in program["maps"].items():
        struct.pack_into("=I", code, int(at), maps[name])
    instructions = ctypes.create_string_buffer(bytes(code), len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(1 << 20)
    try:
        return syscall.bpf(PROG_LOAD, _attr(kind, expected, instructions, licence, None))[0]
    except OSError as error:
        try:
            return syscall.bpf(PROG_LOAD, _attr(kind, expected, instructions, licence, log))[0]
        except OSError:
            last = log.value.decode(errors="replace").strip().splitlines()[-6:]
            raise VerifierError(f"{error.strerror}: {' | '.join(last)}") from error


def _attr(
    kind: int,
    expected: int,
    code: ctypes.Array[ctypes.c_char],
    licence: ctypes.Array[ctypes.c_char],
    log: ctypes.Array[ctypes.c_char] | None,
) -> bytes:
    """The start of union bpf_attr for BPF_PROG_LOAD (include/uapi/linux/bpf.h)."""
    words = (0, 0, 0) if log is None else (1, len(log), ctypes.addressof(log))
    return struct.pack(
        "=IIQQIIQII16sII",
        kind,
        len(code) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        *words,
        0,
        0,
        b"",
        0,
        expected,
    )


if REQUESTS.is_dir():
    bcc.builders = lambda: (HostCompiled(),)
