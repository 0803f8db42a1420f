"""Where a function returns: the instructions that a probe on its exits goes to.

A uretprobe swaps the return address for a trampoline, which a C++ exception cannot unwind through:
the job dies of SIGABRT. A uprobe at each `ret` and each tail jump changes no address. This needs
all of them: a function where one cannot be told from the bytes alone is probed at its entry only.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from probes.elf.frames import Frames
from probes.elf.jumps import Jump, UndecodableError, decode
from probes.elf.symbols import SYMBOL

if TYPE_CHECKING:
    from probes.elf.image import Image
    from probes.elf.symbols import Symbol

# The largest function that is worth a disassembly; c10d::Reducer::finalize_backward has 1.7 kB.
MAX_FUNCTION_BYTES = 1 << 20
MAX_PARTS = 64
# Of x86-64; arm64 has four.
MAX_INSTRUCTION_BYTES = 15


@dataclass(frozen=True, slots=True)
class Exits:
    """Virtual addresses of the exit instructions, ascending.

    `reason` is "" when these are all of them; otherwise it says why they cannot all be known, and
    `addresses` is empty.
    """

    addresses: tuple[int, ...] = ()
    reason: str = ""


class UnknownExitError(Exception):
    """A place where control leaves in a way that cannot be followed; the text says which."""


class Layout(Protocol):
    """What lies where in the image around a function."""

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of code."""
        ...

    def part(self, target: int, *, conditional: bool) -> tuple[int, int] | None:
        """[start, end) of the split-off part that a jump enters; None: another function, a tail
        call. Raises UnknownExitError where that cannot be told.
        """  # noqa: D205 - one sentence
        ...

    def handlers(self, start: int) -> bool:
        """Whether exceptions may enter the part that begins there."""
        ...


def find_exits(image: Image, function: Symbol) -> Exits:
    """Disassemble a function and what was split off it. Raises ElfError for a broken file."""
    if function.size == 0:
        return Exits(reason="the symbol has no size")
    if function.size > MAX_FUNCTION_BYTES:
        return Exits(reason=f"{function.size} bytes are too many to disassemble")
    body = (function.address, function.address + function.size)
    return exits_of(image.machine, body, ImageLayout(image))


def landing(image: Image, function: Symbol) -> Symbol | None:
    """Where a function goes whose first instruction jumps to another one, which does its work.

    None: it begins with something else, or goes where no unwind table tells what lies there.
    """
    from probes.elf.symbols import Symbol

    code = image.read(function.address, min(function.size, MAX_INSTRUCTION_BYTES))
    try:
        first = next(iter(decode(image.machine, code, function.address)), None)
    except UndecodableError:
        return None  # cut off behind the first instruction, which is no jump
    if first is None or first.address != function.address or first.kind != "jump":
        return None
    frame = Frames(image).at(first.target)
    if frame is None or frame.start != first.target:
        return None
    return Symbol(first.target, frame.end - first.target, function.name, function.demangled)


def exits_of(machine: str, body: tuple[int, int], layout: Layout) -> Exits:
    """The exits of the code in `body` = [start, end) and of every part that it jumps into."""
    try:
        walk = Walk(machine, layout)
        walk.follow(body)
        exits = tuple(sorted(walk.exits))
        return Exits(exits) if exits else Exits(reason="it never returns")
    except UnknownExitError as unknown:
        return Exits(reason=str(unknown))
    except UndecodableError as undecodable:
        return Exits(reason=f"the bytes at {undecodable.args[0]:#x} are no known instruction")


@dataclass(frozen=True, slots=True)
class Piece:
    """A decoded part of a function. `starts`: where its instructions begin."""

    start: int
    end: int
    jumps: list[Jump]
    addresses: list[int]
    starts: set[int]

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.end


class Walk:
    """Follows control through a function, so that data between its code is not taken for code."""

    def __init__(self, machine: str, layout: Layout) -> None:
        self._machine = machine
        self._layout = layout
        self._pieces: list[Piece] = []
        self._roots: list[int] = []
        self._seen: set[int] = set()
        # Whether control may arrive where no jump leads: from a jump table or an exception.
        self._anywhere = False
        self.exits: set[int] = set()

    def follow(self, body: tuple[int, int]) -> None:
        """Find the exits. Raises UnknownExitError, UndecodableError."""
        self._add(body)
        self._roots.append(body[0])
        while self._roots:
            root = self._roots.pop()
            piece = self._holder(root)
            if piece is None or root not in piece.starts:
                # A breakpoint put by this reading of the bytes would change other instructions.
                raise UnknownExitError(f"a jump leads into an instruction, to {root:#x}")
            self._run(piece, root)

    def _run(self, piece: Piece, root: int) -> None:
        for jump in piece.jumps[bisect_left(piece.addresses, root) :]:
            if jump.address in self._seen:
                return
            self._seen.add(jump.address)
            self._take(jump)
            if jump.kind != "branch":
                return

    def _take(self, jump: Jump) -> None:
        if jump.kind == "unknown":
            raise UnknownExitError(f"the jump at {jump.address:#x} goes through a register")
        if jump.kind in {"return", "tail_call"}:
            self.exits.add(jump.address)
        elif jump.kind == "table":
            self._open()
        elif self._holder(jump.target) is not None:
            self._roots.append(jump.target)
        else:
            part = self._layout.part(jump.target, conditional=jump.kind == "branch")
            if part is None:
                self.exits.add(_tail_jump(jump))
            else:
                self._add(part)
                self._roots.append(jump.target)

    def _add(self, part: tuple[int, int]) -> None:
        start, end = part
        if len(self._pieces) >= MAX_PARTS:
            raise UnknownExitError(f"the function lies in more than {MAX_PARTS} parts")
        if end - start > MAX_FUNCTION_BYTES:
            raise UnknownExitError(f"its part at {start:#x} is too large to disassemble")
        starts: set[int] = set()
        jumps = list(decode(self._machine, self._layout.read(start, end - start), start, starts))
        piece = Piece(start, end, jumps, [jump.address for jump in jumps], starts)
        self._pieces.append(piece)
        if self._anywhere:
            self._roots += piece.addresses
        elif self._layout.handlers(start):
            self._open()

    def _open(self) -> None:
        if not self._anywhere:
            self._anywhere = True
            for piece in self._pieces:
                self._roots += piece.addresses

    def _holder(self, address: int) -> Piece | None:
        return next((piece for piece in self._pieces if address in piece), None)


def _tail_jump(jump: Jump) -> int:
    if jump.kind == "branch":
        # A probe there would fire whether or not the branch is taken.
        raise UnknownExitError(f"the branch at {jump.address:#x} leaves for another function")
    return jump.address


class ImageLayout:
    """The layout of a real file, from its unwind table, PLT and exported functions."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._frames = Frames(image)
        exported = np.frombuffer(image.content(".dynsym"), "u1")
        exported = exported[: len(exported) // SYMBOL.itemsize * SYMBOL.itemsize]
        self._functions = exported.view(SYMBOL)["value"]

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes of code; raises ElfError."""
        return self._image.read(address, size)

    def part(self, target: int, *, conditional: bool) -> tuple[int, int] | None:
        """See `Layout.part`."""
        if self._image.in_plt(target) or self._exported(target):
            return None
        frame = self._frames.at(target)
        if frame is None:
            if conditional:
                raise UnknownExitError(f"no unwind table tells what lies at {target:#x}")
            return None
        if frame.entered_midway or target != frame.start or conditional:
            return frame.start, frame.end
        return None

    def handlers(self, start: int) -> bool:
        """See `Layout.handlers`."""
        frame = self._frames.at(start)
        return frame is not None and frame.handlers

    def _exported(self, address: int) -> bool:
        # Of 100,000 functions this takes 0.1 ms, and few addresses are asked for: sorting takes 40.
        return bool((self._functions == address).any())
