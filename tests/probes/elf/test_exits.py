from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.elf.exits import Exits, UnknownExitError, exits_of, find_exits
from probes.elf.image import Image
from probes.elf.symbols import find_functions

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = 0x1000


class Bytes:
    """Code at BASE and nothing else: every jump out of it is to another function."""

    def __init__(self, code: bytes, parts: dict[int, bytes] | None = None) -> None:
        self.pieces = {BASE: code, **(parts or {})}

    def read(self, address: int, size: int) -> bytes:
        return self.pieces[address][:size]

    def part(self, target: int, *, conditional: bool) -> tuple[int, int] | None:
        if conditional and target not in self.pieces:
            raise UnknownExitError(f"nothing is known of {target:#x}")
        return (target, target + len(self.pieces[target])) if target in self.pieces else None

    def handlers(self, start: int) -> bool:
        return False


def exits(machine: str, code: str, parts: dict[int, str] | None = None) -> Exits:
    raw = bytes.fromhex(code)
    others = {at: bytes.fromhex(text) for at, text in (parts or {}).items()}
    return exits_of(machine, (BASE, BASE + len(raw)), Bytes(raw, others))


# Machine code by hand: what a compiler writes, byte by byte, and the offsets of its exits.
X86 = {
    "push rbx; pop rbx; ret": ("53 5b c3", [2]),
    "je +2; ret; nop; repz ret": ("7402 c3 90 f3c3", [2, 4]),
    "ret; what nothing leads to": ("c3 c3c3c3", [0]),
    "je over lock; lock inc [rdi]; ret": ("7401 f0ff07 c3", [5]),
    "jmp outside: a tail call": ("90 e9 fa0f0000", [1]),
    "je +1; ret; ret: a branch inside": ("7401 c3 c3", [2, 3]),
    "mov rax,[rdi]; jmp [rax+0x18]: a virtual tail call": ("488b07 ff6018", [3]),
    "mov rax,[rdi]; jmp rax": ("488b07 ffe0", [3]),
    "pop rbx; jmp rax: the frame is gone": ("5b ffe0", [1]),
    "jmp [rip+8]: a tail call through the GOT": ("ff2508000000", [0]),
    # lea rdx,[rip+table]; movsxd rax,[rdx+rax*4]; add rax,rdx; notrack jmp rax; ret
    "a jump table": ("488d1500000000 48630482 4801d0 3effe0 c3", [17]),
    "jmp [rax*8+table]; ret: an absolute jump table": ("ff24c500200000 c3", [7]),
}
ARM64 = {
    "ldp x29,x30,[sp],#16; ret": ("fd7bc1a8 c0035fd6", [4]),
    "autiasp; retaa": ("bf2303d5 ff0b5fd6", [4]),
    "b outside: a tail call": ("1f2003d5 00040014", [4]),
    "cbz x0,+8; ret; ret: a branch inside": ("400000b4 c0035fd6 c0035fd6", [4, 8]),
    "ldr x1,[x0,#24]; br x1: a virtual tail call": ("010c40f9 20001fd6", [4]),
    "ldp x29,x30,[sp],#16; br x16: the frame is gone": ("fd7bc1a8 00021fd6", [4]),
    # adr x1,.; add x0,x1,w0,sxth #2; br x0; ret
    "a jump table": ("01000010 20a8208b 00001fd6 c0035fd6", [12]),
}
CASES = [("x86-64", name, *case) for name, case in X86.items()]
CASES += [("arm64", name, *case) for name, case in ARM64.items()]


@pytest.mark.parametrize(
    ("machine", "name", "code", "offsets"), CASES, ids=lambda value: str(value)[:40]
)
def test_every_exit_of_hand_written_code_is_found(
    machine: str, name: str, code: str, offsets: list[int]
) -> None:
    found = exits(machine, code)
    assert (found.reason, [at - BASE for at in found.addresses]) == ("", offsets), name


UNKNOWN = {
    "mov rax,rdi; jmp rax": ("x86-64", "4889f8 ffe0", "goes through a register"),
    "je outside": ("x86-64", "0f84fa0f0000 c3", "nothing is known of 0x2000"),
    "ud2": ("x86-64", "0f0b", "never returns"),
    "no instruction": ("x86-64", "90 06 c3", "0x1001 are no known instruction"),
    "mov x1,x0; br x1": ("arm64", "e10300aa 20001fd6", "goes through a register"),
    # jmp 0x1003; a byte; mov eax,0xc3: read on from the byte, the code has other instructions
    "data before code": ("x86-64", "eb01 48 b8c3c3c300 b9c3c3c3c3 c3", "an instruction, to 0x1003"),
    "a literal in the code": ("arm64", "c0035fd6 ffffffff", "0x1004 are no known instruction"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_exit_that_cannot_be_told_means_none_and_says_why(name: str) -> None:
    machine, code, reason = UNKNOWN[name]
    found = exits(machine, code)
    assert found.addresses == ()
    assert reason in found.reason


def test_a_part_that_the_compiler_moved_away_is_followed_and_its_exits_count() -> None:
    # je 0x2000; ret   and there: je 0x1006 (back); je +1; ret; jmp 0x3000 (a tail call)
    found = exits("x86-64", "0f84fa0f0000 c3", {0x2000: "0f8400f0ffff 7401 c3 e9f20f0000"})
    assert found.reason == ""
    assert found.addresses == (0x1006, 0x2008, 0x2009)


SAMPLE = """
extern int other(int); extern void fail(void) __attribute__((noreturn, cold));
extern int log_it(const char *, int) __attribute__((cold));
int (*hook)(int);
struct ops { int (*run)(struct ops *, int); };
int plain(int x) { return x * 3; }
int early(int *x) { if (!x) return -1; x[0] += other(x[1]); return x[0]; }
int tail(int x) { return other(x + 1); }
int virtual_tail(struct ops *o, int x) { return o->run(o, x); }
int hooked(int x) { return hook(x + 2); }
int many(int x) {
  switch (x) { case 0: return other(7) + 1; case 1: return other(9) * 5;
  case 2: return x ^ other(x);
  case 3: return other(3) + other(4); case 4: return other(5) - 9; case 5: return 1 - other(2);
  case 6: return other(11) / 3; default: return 99; } }
int unlikely(int *x) {
  if (__builtin_expect(!x, 0)) { log_it("null", 1); return log_it("really", 2); }
  if (__builtin_expect(x[0] < 0, 0)) fail();
  return other(x[0]) + x[1]; }
"""
FUNCTIONS = ["plain", "early", "tail", "virtual_tail", "hooked", "many", "unlikely"]


@pytest.mark.parametrize("optimisation", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code_is_understood_at_every_optimisation(
    compile_library: Callable[..., str], name: str, optimisation: str
) -> None:
    with Image(compile_library(SAMPLE, optimisation)) as image:
        (function,) = [each for each in find_functions(image, name) if not each.cold]
        found = find_exits(image, function)
    assert found.reason == ""
    assert found.addresses


def test_without_symbols_the_cold_part_is_found_through_the_unwind_table(
    compile_library: Callable[..., str],
) -> None:
    results = []
    for strip in ((), ("-s",)):
        with Image(compile_library(SAMPLE, "-freorder-blocks-and-partition", *strip)) as image:
            (function,) = [each for each in find_functions(image, "unlikely") if not each.cold]
            results.append((function, find_exits(image, function).addresses))
    (function, whole), (_, stripped) = results
    assert whole == stripped
    assert any(address not in function for address in whole)


def test_a_symbol_without_size_is_for_its_entry_only(compile_library: Callable[..., str]) -> None:
    assembly = ".globl bare\n.type bare,@function\nbare: ret\n"
    with Image(compile_library(f"asm({assembly!r});".replace("'", '"'))) as image:
        (bare,) = find_functions(image, "bare")
        assert find_exits(image, bare).reason == "the symbol has no size"


@pytest.mark.parametrize("name", ["malloc", "qsort", "getaddrinfo", "memcpy", "printf"])
def test_functions_of_the_c_library_are_understood(name: str) -> None:
    lines = Path("/proc/self/maps").read_text().splitlines()
    path = next((line.split()[-1] for line in lines if "/libc.so.6" in line), None)
    if path is None:
        pytest.skip("this interpreter does not run on glibc")
    with Image(path) as image:
        found = [find_exits(image, function) for function in find_functions(image, name)]
    assert found
    assert all(each.addresses for each in found)
