"""Source to loaded programs, by bcc; nothing outside this module knows that bcc exists.

bcc is used to compile, to create maps and to pass the verifier. Attaching, maps and counters are
plain system calls (attachment.py, maps.py), so that a loader of precompiled objects has only this
module's `build` to supply.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.bpf import capabilities, syscall
from probes.bpf.errors import UnavailableError
from probes.bpf.words.bcc import respell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KERNEL_STUBS = Path(__file__).with_name("kernel")
MEND_BCC = "apt-get install python3-bpfcc (Fedora: dnf install python3-bcc), then make venv"

_stderr_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Built:
    """Loaded programs by name and the module that owns them."""

    program_fds: dict[str, int]
    module: Any
    libbcc: Any

    def map_fd(self, name: str) -> int:
        """The fd of a map. KeyError when the source declares none of that name."""
        fd = int(self.libbcc.bpf_table_fd(self.module.module, name.encode()))
        if fd < 0:
            raise KeyError(name)
        return fd

    def close(self) -> None:
        """Close programs and maps."""
        self.module.close()


def import_bcc() -> Any:
    """The bcc package, without the SyntaxWarnings of its old sources.

    Raises UnavailableError (no_bcc).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import bcc
    except (ImportError, OSError, AttributeError) as error:
        raise UnavailableError("no_bcc", f"bcc cannot be loaded: {error}", MEND_BCC) from error
    if not hasattr(bcc, "BPF"):
        raise UnavailableError(
            "no_bcc", f"{bcc.__file__} is another package that is also called bcc", MEND_BCC
        )
    return bcc


def bcc_version() -> str:
    """The version of the bcc that is found. Raises UnavailableError (no_bcc)."""
    return str(getattr(import_bcc(), "__version__", "unknown"))


def build(path: Path, defines: Mapping[str, int | str], programs: Mapping[str, int]) -> Built:
    """Compile and load `programs` (name to BPF_PROG_TYPE) of one source file.

    Raises UnavailableError: no_bcc, compile or verifier, with the compiler's own words.
    """
    bcc = import_bcc()
    from bcc.libbcc import lib

    ring = capabilities.has_ring_buffer()
    text = respell(path.read_text(encoding="utf-8"), ring=ring)
    flags = _flags(defines, ring=ring)
    module = None
    with _captured_stderr() as chatter:
        try:
            with _environment(BCC_KERNEL_SOURCE=str(KERNEL_STUBS)):
                module = bcc.BPF(text=text.encode(), cflags=flags)
            # bcc would detach at exit in its own order and print tracebacks; closing is ours.
            atexit.unregister(module.cleanup)
            fds = {
                name: module.load_func(name.encode(), kind).fd for name, kind in programs.items()
            }
        except Exception as error:  # bcc raises bare Exception
            if module is not None:
                atexit.unregister(module.donothing)
                module.close()
            raise _refusal(path, error, chatter(), compiled=module is not None) from error
    return Built(fds, module, lib)


def _flags(defines: Mapping[str, int | str], *, ring: bool) -> list[str]:
    major, minor = syscall.kernel_release()
    flags = [f"-DLINUX_VERSION_CODE={(major << 16) + (minor << 8)}"]
    flags += ["-DSW_HAS_RING"] * ring
    flags += ["-DSW_HAS_PROBE_READ_KERNEL"] * capabilities.has_probe_read_kernel()
    return flags + [f"-D{name}={value}" for name, value in defines.items()]


def _refusal(path: Path, error: Exception, chatter: str, *, compiled: bool) -> UnavailableError:
    where = f"{path.parent.name}/{path.name}"
    # Maps are made while bcc "compiles", so that a refusal can come in either half.
    if "super-user" in str(error) or os.strerror(errno.EPERM) in chatter:
        return UnavailableError(
            "missing_capability",
            f"the kernel refused to load {where}: operation not permitted",
            "run as root on the host; in a container also --security-opt seccomp=unconfined",
        )
    if compiled:
        return UnavailableError(
            "verifier",
            f"the kernel's verifier refused {where}: {error}: {_last_lines(chatter)}",
            "please report this with the kernel version (uname -r)",
        )
    return UnavailableError(
        "compile",
        f"{where} does not compile: {_last_lines(chatter) or error}",
        "please report this with the bcc version (stallwatch doctor)",
    )


def _last_lines(chatter: str, count: int = 3) -> str:
    lines = [line.strip() for line in chatter.splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line]
    return " | ".join((errors or lines[-count:])[:count])


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _captured_stderr() -> Iterator[Any]:
    """File descriptor 2 goes to a file meanwhile: LLVM and libbpf write there from C++."""
    with _stderr_lock, tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)

        def read() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            yield read
        finally:
            os.dup2(kept, 2)
            os.close(kept)
