"""The child that compiles: the only code that imports bcc, in a process that ends soon after.

LLVM takes more than 100 MB that it never gives back, and a compiler that crashes takes its process
with it; so neither is let into the agent. A request names source text, flags and programs; the
answer carries the descriptors of the loaded programs and of the maps. What LLVM, libbpf and the
verifier print goes to standard error, which the agent keeps in a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import warnings
from typing import Any

from probes.bpf import passing

# include/uapi/linux/bpf.h
PROG_TYPE_KPROBE, TRACE_UPROBE_MULTI = 2, 48


def serve(channel: socket.socket) -> None:
    """Answer until the agent closes its end."""
    while True:
        try:
            request, _ = passing.receive(channel)
        except EOFError:
            return
        if "text" in request:
            _build(channel, request)
        else:
            passing.send(channel, _version())


def _import_bcc() -> Any:
    """ImportError too when it is another package of that name, or its library is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sources are old; newer Pythons say so
        try:
            import bcc
        except (OSError, AttributeError) as error:
            raise ImportError(str(error)) from error
    if not hasattr(bcc, "BPF"):
        raise ImportError(f"{bcc.__file__} is another package that is also called bcc")
    return bcc


def _version() -> dict[str, Any]:
    try:
        bcc = _import_bcc()
    except ImportError as error:
        return {"failed": "import", "words": str(error)}
    return {"version": str(getattr(bcc, "__version__", "unknown")), "file": bcc.__file__}


def _build(channel: socket.socket, request: dict[str, Any]) -> None:
    module = None
    try:
        bcc = _import_bcc()
        _point_at(request["headers"])
        module = bcc.BPF(text=request["text"].encode(), cflags=request["flags"])
        programs = {
            name: _load(module, name.encode(), kind, multi=request["uprobe_multi"])
            for name, kind in request["programs"].items()
        }
        maps = _maps(bcc.libbcc.lib, module.module)
    except ImportError as error:
        passing.send(channel, {"failed": "import", "words": str(error)})
    # bcc raises bare Exception, and calls `exit` for what it cannot compile.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        sys.stderr.flush()
        stage = "compile" if module is None else "verify"
        passing.send(channel, {"failed": stage, "words": str(error)})
    else:
        names = {"programs": list(programs), "maps": list(maps)}
        passing.send(channel, names, (*programs.values(), *maps.values()))
    finally:
        if module is not None:
            module.cleanup()  # closes what was passed on, and frees LLVM's part of it


def _load(module: Any, name: bytes, kind: int, *, multi: bool) -> int:
    """The descriptor of a program; a uprobe's says what it is for, so that one link holds many."""
    if multi and kind == PROG_TYPE_KPROBE:
        with contextlib.suppress(TypeError):  # an older bcc has no such argument
            return int(module.load_func(name, kind, None, TRACE_UPROBE_MULTI).fd)
    return int(module.load_func(name, kind).fd)


def _point_at(headers: str) -> None:
    """Where bcc looks for kernel headers; "" lets it find the node's own."""
    if headers:
        os.environ["BCC_KERNEL_SOURCE"] = headers
    else:
        os.environ.pop("BCC_KERNEL_SOURCE", None)


def _maps(library: Any, module: Any) -> dict[str, int]:
    """Descriptors by name (bcc src/cc/bcc_common.h); bcc's Python does not declare these."""
    library.bpf_num_tables.restype = ctypes.c_size_t
    library.bpf_num_tables.argtypes = [ctypes.c_void_p]
    library.bpf_table_name.restype = ctypes.c_char_p
    library.bpf_table_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.bpf_table_fd_id.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return {
        library.bpf_table_name(module, index).decode(): library.bpf_table_fd_id(module, index)
        for index in range(library.bpf_num_tables(module))
    }


def main(fd: int) -> None:
    """Serve on an inherited socket; ends without bcc's exit handlers, which print."""
    try:
        with socket.socket(fileno=fd) as channel:
            serve(channel)
    except OSError:
        os._exit(1)  # the agent is gone
    os._exit(0)
