"""Compiles on the host what a booted machine asks for: there it takes fifty times as long.

    python -m tests.kernels.precompile FOLDER

A request is a file NAME.json as the child that compiles gets it; the answer is NAME.reply: each
program's instructions, in which the maps are named, and what the maps are. It is also what a loader
of precompiled objects would read from a file.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from probes.bpf import compile_child, syscall

INSTRUCTION_BYTES = 8
# BPF_LD | BPF_IMM | BPF_DW with src_reg BPF_PSEUDO_MAP_FD: its immediate is a map's descriptor.
LOAD_MAP, OF_MAP = 0x18, 1


def compile_source(request: dict[str, Any]) -> dict[str, Any]:
    """bcc makes the maps on this kernel too, and they are described by what this kernel says."""
    bcc = compile_child._import_bcc()
    compile_child._point_at(request["headers"])
    module = bcc.BPF(text=request["text"].encode(), cflags=request["flags"])
    try:
        maps = compile_child._maps(bcc.libbcc.lib, module.module)
        names = {fd: name for name, fd in maps.items()}
        return {
            "programs": {name: _code(module, name, names) for name in request["programs"]},
            "maps": {name: _describe(fd) for name, fd in maps.items()},
        }
    finally:
        module.cleanup()


def _code(module: Any, name: str, names: dict[int, str]) -> dict[str, Any]:
    code = module.dump_func(name.encode())
    uses = {}
    at = 0
    while at < len(code):
        if code[at] == LOAD_MAP:
            if code[at + 1] >> 4 == OF_MAP:
                uses[str(at + 4)] = names[int.from_bytes(code[at + 4 : at + 8], sys.byteorder)]
            at += INSTRUCTION_BYTES  # its second half
        at += INSTRUCTION_BYTES
    return {"code": code.hex(), "maps": uses}


def _describe(fd: int) -> list[int]:
    info = syscall.map_info(fd)
    return [info.type, info.key_bytes, info.value_bytes, info.max_entries]


def main() -> None:
    """Answer until ended."""
    folder = Path(sys.argv[1])
    while True:
        for path in sorted(folder.glob("*.json")):
            answer: dict[str, Any]
            try:
                answer = compile_source(json.loads(path.read_text(encoding="utf-8")))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - bcc raises anything
                answer = {"failed": "compile", "words": str(error)}
            reply = path.with_suffix(".reply")
            part = path.with_suffix(".part")
            part.write_text(json.dumps(answer), encoding="utf-8")
            part.rename(reply)
            path.unlink()
        time.sleep(0.1)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
