"""Compiles on the host what a booted machine asks for: there it takes fifty times as long.

    python -m tests.kernels.precompile FOLDER

A request is a file NAME.json as the child that compiles gets it; the answer is NAME.reply: each
program's instructions, in which the maps are named, and what the maps are. It is also what a loader
of precompiled objects would read from a file. What was asked before is answered from memory: tests
load the same program again and again. What remote_gcc.py asks for is a command of the host's gcc.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
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
    answers: dict[str, str] = {}
    while True:
        for path in sorted(folder.glob("*.json")):
            request = path.read_text(encoding="utf-8")
            if request not in answers:
                answers[request] = json.dumps(_answer(json.loads(request)))
            reply = path.with_suffix(".reply")
            part = path.with_suffix(".part")
            part.write_text(answers[request], encoding="utf-8")
            part.rename(reply)
            path.unlink()
        time.sleep(0.1)


def run_compiler(request: dict[str, Any]) -> dict[str, Any]:
    """The status of a command, what it said, and the file that it made."""
    output = Path(request["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    for name, content in request["files"].items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(bytes.fromhex(content))
    done = subprocess.run(request["command"], capture_output=True, text=True, check=False)
    made = output.read_bytes().hex() if done.returncode == 0 else ""
    return {"status": done.returncode, "words": done.stderr, "made": made}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if "command" in request:
        return run_compiler(request)
    try:
        return compile_source(request)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - bcc raises anything
        return {"failed": "compile", "words": str(error)}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
