"""The instructions that can leave a function, decoded from machine code by capstone.

Indirect jumps are told apart by how compilers write them. A jump through a table scales an index
(x86-64 `movsxd`+`add` or `[base + index*8]`, arm64 `add x, x, w, sxtw`); a tail call through a
pointer loads it from one place (`mov rax, [rdi + 0x18]`, `ldr x1, [x0, #24]`) or follows the
frame's release. What is neither stays "unknown".
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind: TypeAlias = Literal["return", "jump", "branch", "tail_call", "table", "unknown"]

# How far back a compiler computes the target of an indirect jump.
WINDOW = 12
X86_RETURNS = frozenset({"ret", "retf", "repz ret", "rep ret", "bnd ret"})
X86_PREFIXES = re.compile(r"^(notrack|bnd|rep|repz) ")
X86_BRANCH = re.compile(r"^(j[a-z]+|loop\w*)$")
ARM_RETURNS = frozenset({"ret", "retaa", "retab"})
ARM_BRANCH = re.compile(r"^(bc?\..+|cbn?z|tbn?z)$")
ARM_INDIRECT = frozenset({"br", "braa", "brab", "braaz", "brabz"})


class UndecodableError(Exception):
    """There are bytes that are no instruction known to capstone; holds their address."""


@dataclass(frozen=True, slots=True)
class Jump:
    """An instruction that can leave: `jump` and `branch` (conditional) have a `target`."""

    address: int
    kind: Kind
    target: int = 0


Instruction: TypeAlias = tuple[int, int, str, str]  # address, size, mnemonic, operands


def decode(
    machine: str, code: bytes, address: int, starts: set[int] | None = None
) -> Iterator[Jump]:
    """Every jump and return in `code`, which lies at `address`. Raises UndecodableError.

    `starts` receives the places at which an instruction begins, one behind a `lock` among them,
    which code for a single thread jumps over.
    """
    import capstone

    if machine == "arm64":
        engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
        classify = _classify_arm64
    else:
        engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        classify = _classify_x86
    recent: deque[Instruction] = deque(maxlen=WINDOW)
    at = address
    for instruction in engine.disasm_lite(code, address):
        if starts is not None:
            starts.add(instruction[0])
            if instruction[2].startswith("lock "):
                starts.add(instruction[0] + 1)
        jump = classify(instruction, recent)
        if jump is not None:
            yield jump
        recent.appendleft(instruction)
        at = instruction[0] + instruction[1]
    if at != address + len(code):
        raise UndecodableError(at)


def _classify_x86(instruction: Instruction, recent: deque[Instruction]) -> Jump | None:
    address, _, mnemonic, operands = instruction
    mnemonic = X86_PREFIXES.sub("", mnemonic)
    if mnemonic in X86_RETURNS:
        return Jump(address, "return")
    if not X86_BRANCH.match(mnemonic):
        return None
    target = _target(operands)
    if target is not None:
        return Jump(address, "jump" if mnemonic == "jmp" else "branch", target)
    if "[" in operands:
        return Jump(address, "table" if "*" in operands else "tail_call")
    return Jump(address, _indirect_x86(operands, recent))


def _indirect_x86(register: str, recent: deque[Instruction]) -> Kind:
    extended = any(mnemonic in {"movsxd", "cdqe"} for _, _, mnemonic, _ in recent)
    for _, _, mnemonic, operands in recent:
        destination, _, source = operands.partition(", ")
        if destination != register or mnemonic in {"cmp", "test", "push"}:
            continue
        if mnemonic == "add" and extended:
            return "table"
        if mnemonic == "mov" and "[" in source:
            return "table" if "*" in source else "tail_call"
        break
    return "tail_call" if recent and _releases_frame_x86(recent[0]) else "unknown"


def _releases_frame_x86(instruction: Instruction) -> bool:
    _, _, mnemonic, operands = instruction
    return mnemonic in {"pop", "leave"} or (mnemonic == "add" and operands.startswith("rsp,"))


def _classify_arm64(instruction: Instruction, recent: deque[Instruction]) -> Jump | None:
    address, _, mnemonic, operands = instruction
    if mnemonic in ARM_RETURNS:
        return Jump(address, "return")
    if mnemonic == "b" or ARM_BRANCH.match(mnemonic):
        target = _target(operands.rpartition(", ")[2])
        if target is not None:
            return Jump(address, "jump" if mnemonic == "b" else "branch", target)
    if mnemonic in ARM_INDIRECT:
        return Jump(address, _indirect_arm64(operands.partition(",")[0], recent))
    return None


def _indirect_arm64(register: str, recent: deque[Instruction]) -> Kind:
    for _, _, mnemonic, operands in recent:
        destination, _, source = operands.partition(", ")
        if destination != register or mnemonic in {"cmp", "str", "stp"}:
            continue
        if mnemonic == "add" and re.search(r"sxt|uxt|lsl|, [wx]\d", source):
            return "table"
        if mnemonic == "ldr":
            return "table" if re.search(r"lsl|sxt|uxt", source) else "tail_call"
        break
    released = any(m in {"ldp", "ldr"} and "[sp], #" in operands for _, _, m, operands in recent)
    return "tail_call" if released else "unknown"


def _target(operand: str) -> int | None:
    try:
        return int(operand.removeprefix("#"), 16)
    except ValueError:
        return None
