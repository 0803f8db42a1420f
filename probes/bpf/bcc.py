"""The builders that use bcc: with the stub headers, and with the node's own."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probes.bpf import capabilities, headers, syscall
from probes.bpf.builder import Built
from probes.bpf.compiler import COMPILER, Compiler, no_bcc
from probes.bpf.errors import UnavailableError
from probes.bpf.words.bcc import respell

if TYPE_CHECKING:
    from probes.bpf.builder import Builder, Source
    from probes.bpf.compiler import Answer


@dataclass(frozen=True, slots=True)
class StubHeaders:
    """bcc with the few headers that are shipped, which fit every kernel."""

    compiler: Compiler = COMPILER
    name: str = "stub headers"

    def build(self, source: Source) -> Built:
        """See `Builder`."""
        return _build(self.compiler, source, str(headers.STUBS), stub_flags())


@dataclass(frozen=True, slots=True)
class NodeHeaders:
    """bcc with the running kernel's own headers: for a bcc that asks for more than the stubs."""

    compiler: Compiler = COMPILER
    name: str = "node headers"

    def build(self, source: Source) -> Built:
        """See `Builder`."""
        if headers.of_the_node() is None:
            raise UnavailableError("no_headers", "none")
        return _build(self.compiler, source, "", [])


def stub_flags() -> list[str]:
    """What the node's own headers would say of themselves."""
    major, minor = syscall.kernel_release()
    return [f"-DLINUX_VERSION_CODE={(major << 16) + (minor << 8)}"]


def builders() -> tuple[Builder, ...]:
    """In the order in which they are tried."""
    return StubHeaders(), NodeHeaders()


def request(source: Source, tree: str, flags: list[str]) -> dict[str, Any]:
    """What the compiler is asked for; `tree`: a folder of kernel headers, "" for the node's own."""
    ring = capabilities.has_ring_buffer()
    flags = [*flags, *["-DSW_HAS_RING"] * ring]
    flags += ["-DSW_HAS_PROBE_READ_KERNEL"] * capabilities.has_probe_read_kernel()
    flags += [f"-D{name}={value}" for name, value in source.defines.items()]
    return {
        "text": respell(
            source.path.read_text(encoding="utf-8"), ring=ring, folder=source.path.parent
        ),
        "flags": flags,
        "headers": tree,
        "programs": dict(source.programs),
        "uprobe_multi": capabilities.has_uprobe_multi(),
    }


def _build(compiler: Compiler, source: Source, tree: str, flags: list[str]) -> Built:
    answer = compiler.ask(request(source, tree, flags))
    if "failed" in answer.message:
        raise refusal(source.name, answer)
    if len(answer.fds) < len(answer.message["programs"]) + len(answer.message["maps"]):
        # The kernel keeps back what does not fit into the table of open files.
        for fd in answer.fds:
            os.close(fd)
        raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)}: programs of {source.name}")
    fds = iter(answer.fds)
    programs = {name: next(fds) for name in answer.message["programs"]}
    return Built(programs, {name: next(fds) for name in answer.message["maps"]})


def refusal(where: str, answer: Answer) -> UnavailableError:
    """Why a source was refused, with the compiler's or the verifier's own words."""
    stage, words = answer.message["failed"], answer.message["words"]
    if stage == "import":
        return no_bcc(words)
    # Maps are made while bcc "compiles", so that a refusal can come in either half.
    if "super-user" in words or os.strerror(errno.EPERM) in answer.chatter:
        return UnavailableError(
            "missing_capability",
            f"the kernel refused to load {where}: operation not permitted",
            "run as root on the host; in a container also --security-opt seccomp=unconfined",
        )
    if stage == "verify":
        return UnavailableError(
            "verifier",
            f"the kernel's verifier refused {where}: {words}: {_last_lines(answer.chatter)}",
            "please report this with the kernel version (uname -r)",
        )
    return UnavailableError(
        "compile",
        f"{where} does not compile: {_last_lines(answer.chatter) or words}",
        "please report this with the bcc version (stallwatch doctor)",
    )


def _last_lines(chatter: str, count: int = 3) -> str:
    lines = [line.strip() for line in chatter.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return " | ".join((errors or lines[-count:])[:count])
