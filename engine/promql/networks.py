"""Comparator networks that find order statistics of sliding windows, for many windows at once.

Windows that overlap share most of their samples. A group of neighbouring windows has a core that is
in all of them: it is sorted once. Half of the group has more in common than the core, which is
merged into it, then half of that half, until every window has its samples together. What cannot
have one of the wanted ranks any more is left out at each step, so that the lists stay short. All
of it is minima and maxima of pairs, done for the same place in all groups by one operation on
arrays: Batcher's odd-even merges, without what nobody asks for.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from engine.series import Float64Array

# A value is a node of the network, so many groups further on.
Value: TypeAlias = "tuple[int, int]"

# Groups worked on at once: with more of them registers would leave a core's cache, with fewer an
# operation costs more than what it does.
CACHED_CELLS = 2**17
FEWEST_AT_ONCE, MOST_AT_ONCE = 512, 2_048
LARGEST_GROUP = 32
MOST_MACHINES = 8


@dataclass(frozen=True, slots=True)
class Sorted:
    """Values in ascending order: those of ranks `below`, `below` + 1, … among `size`.

    The others have none of the wanted ranks in the end.
    """

    values: tuple[Value, ...]
    below: int
    size: int


@dataclass(slots=True)
class Builder:
    """A network while it is built. Equal nodes are one, wherever they are used."""

    width: int
    hop: int
    group: int
    lowest: int
    highest: int
    # (is it the larger one, one value, the other), or () for a sample.
    nodes: list[tuple[bool, Value, Value] | None] = field(default_factory=list)
    known: dict[tuple[bool, Value, Value], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The samples of one group come first."""
        self.nodes.extend([None] * (self.group * self.hop))

    def windows(self) -> list[Sorted]:
        """The wanted ranks of each window of a group."""
        first = (self.group - 1) * self.hop
        return self._split(0, self.group, self._ordered(first, self.width))

    def _split(self, start: int, stop: int, core: Sorted) -> list[Sorted]:
        """What windows start … stop - 1 have in common, halved until it is one window."""
        if stop - start == 1:
            return [core]
        middle = (start + stop) // 2
        early = self._ordered((middle - 1) * self.hop, (stop - 1) * self.hop)
        late = self._ordered(start * self.hop + self.width, middle * self.hop + self.width)
        return [
            *self._split(start, middle, self._merged(core, early)),
            *self._split(middle, stop, self._merged(core, late)),
        ]

    def _ordered(self, start: int, stop: int) -> Sorted:
        """The samples start … stop - 1, sorted; in aligned halves, which other groups share."""
        if stop - start == 1:
            period = self.group * self.hop
            return self._wanted(((start % period, start // period),), 0, 1)
        if stop <= start:
            return Sorted((), 0, 0)
        step = 1
        while step * 2 < stop - start:
            step *= 2
        middle = -(-(start + 1) // step) * step
        if middle >= stop:
            middle = (start + stop) // 2
        return self._merged(self._ordered(start, middle), self._ordered(middle, stop))

    def _merged(self, one: Sorted, other: Sorted) -> Sorted:
        values = self._merge(one.values, other.values)
        return self._wanted(values, one.below + other.below, one.size + other.size)

    def _wanted(self, values: tuple[Value, ...], below: int, size: int) -> Sorted:
        """Without what has too few others above or below it to get a wanted rank."""
        least = max(0, self.lowest - (self.width - size))
        drop = max(0, least - below)
        keep = max(0, min(self.highest, size - 1) + 1 - below)
        return Sorted(values[drop:keep], below + drop, size)

    def _merge(self, one: tuple[Value, ...], other: tuple[Value, ...]) -> tuple[Value, ...]:
        """Batcher's odd-even merge, for any lengths (Knuth, 5.3.4)."""
        if not one or not other:
            return one or other
        if len(one) == len(other) == 1:
            return self._pair(one[0], other[0])
        odd = self._merge(one[::2], other[::2])
        even = self._merge(one[1::2], other[1::2])
        found = [odd[0]]
        for low, high in zip(even, odd[1:], strict=False):
            found += self._pair(low, high)
        found += even[len(odd) - 1 :]
        found += odd[len(even) + 1 :]
        return tuple(found)

    def _pair(self, one: Value, other: Value) -> tuple[Value, Value]:
        """The smaller and the larger of two."""
        if other < one:
            one, other = other, one
        shift = min(one[1], other[1])
        key = (one[0], one[1] - shift), (other[0], other[1] - shift)
        return (self._node((False, *key)), shift), (self._node((True, *key)), shift)

    def _node(self, key: tuple[bool, Value, Value]) -> int:
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.nodes)
            self.nodes.append(key)
        return found


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation: registers and how many groups further on each operand is read."""

    larger: bool
    one: Value
    other: Value
    into: int
    # How many groups more than are wanted.
    beyond: int


@dataclass(frozen=True, slots=True)
class Network:
    """A program over registers; the first `inputs` hold the samples of a group.

    Window w of a group holds samples w · hop … w · hop + width - 1 of it and of the following
    groups, as many as `beyond`. `outputs`: for each window where its wanted ranks are.
    """

    group: int
    inputs: int
    registers: int
    beyond: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[tuple[Value, ...], ...]


@lru_cache(maxsize=256)
def network(width: int, hop: int, lowest: int, highest: int) -> Network:
    """The cheapest network for ranks lowest … highest (from 0) of windows of `width` samples."""
    group = 1
    while group < LARGEST_GROUP and (2 * group - 1) * hop < width:
        group *= 2
    best = _built(width, hop, group, lowest, highest)
    while group > 1:
        group //= 2
        other = _built(width, hop, group, lowest, highest)
        if _cost(other) >= _cost(best):
            break
        best = other
    return best


def _cost(built: Network) -> float:
    return (len(built.instructions) + built.inputs) / built.group


def _built(width: int, hop: int, group: int, lowest: int, highest: int) -> Network:
    builder = Builder(width, hop, group, lowest, highest)
    wanted = []
    for window in builder.windows():
        skip = lowest - window.below
        wanted.append(window.values[skip : skip + highest - lowest + 1])
    nodes, inputs = builder.nodes, group * hop
    beyond = [-1] * len(nodes)
    for values in wanted:
        for node, shift in values:
            beyond[node] = max(beyond[node], shift)
    for node in range(len(nodes) - 1, inputs - 1, -1):
        made = nodes[node]
        if made is not None and beyond[node] >= 0:
            for operand, shift in made[1:]:
                beyond[operand] = max(beyond[operand], beyond[node] + shift)
    return _allocated(nodes, inputs, beyond, wanted, group)


def _allocated(
    nodes: list[tuple[bool, Value, Value] | None],
    inputs: int,
    beyond: list[int],
    wanted: list[tuple[Value, ...]],
    group: int,
) -> Network:
    """Registers for nodes, given back when a node is read for the last time."""
    last = list(range(len(nodes)))
    for node in range(inputs, len(nodes)):
        made = nodes[node]
        if made is not None and beyond[node] >= 0:
            for operand, _ in made[1:]:
                last[operand] = max(last[operand], node)
    for values in wanted:
        for node, _ in values:
            last[node] = len(nodes)
    register = list(range(inputs)) + [-1] * (len(nodes) - inputs)
    free: list[int] = []
    count = inputs
    instructions = []
    for node in range(inputs, len(nodes)):
        made = nodes[node]
        if made is None or beyond[node] < 0:
            continue
        larger, one, other = made
        if free:
            into = free.pop()
        else:
            into, count = count, count + 1
        register[node] = into
        instructions.append(
            Instruction(
                larger,
                (register[one[0]], one[1]),
                (register[other[0]], other[1]),
                into,
                beyond[node],
            )
        )
        free += {register[operand] for operand, _ in (one, other) if last[operand] == node}
    outputs = tuple(tuple((register[node], shift) for node, shift in values) for values in wanted)
    most = max(0, *beyond)
    return Network(group, inputs, count, most, tuple(instructions), outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """Registers of a network, and its operations on them."""

    registers: Float64Array
    at_once: int
    operations: tuple[tuple[np.ufunc, Float64Array, Float64Array, Float64Array], ...]

    @classmethod
    def of(cls, program: Network) -> Machine:
        """Registers that stay in cache."""
        fitting = CACHED_CELLS // program.registers
        at_once = max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, fitting))
        registers = np.zeros((program.registers, at_once + program.beyond))

        def view(value: Value, size: int) -> Float64Array:
            return registers[value[0], value[1] : value[1] + size]

        operations = (
            (
                np.maximum if one.larger else np.minimum,
                view(one.one, at_once + one.beyond),
                view(one.other, at_once + one.beyond),
                registers[one.into, : at_once + one.beyond],
            )
            for one in program.instructions
        )
        return cls(registers, at_once, tuple(operations))


class _Machines(threading.local):
    """The machines that this thread used last: a machine is written to while it runs."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[Network, Machine]] = {}

    def of(self, program: Network) -> Machine:
        found = self.held.get(id(program))
        if found is None:
            if len(self.held) >= MOST_MACHINES:
                del self.held[next(iter(self.held))]
            # The network is held so that its identity is not used twice.
            found = self.held[id(program)] = (program, Machine.of(program))
        return found[1]


_machines = _Machines()


def run(program: Network, samples: Float64Array) -> Float64Array:
    """The wanted ranks of all windows: [ranks, windows of a group, groups].

    `samples`: [inputs, groups], sample i of each group; no NaN among them. What is given for the
    last groups, as many as `beyond`, means nothing.
    """
    groups = samples.shape[1] - program.beyond
    found = np.empty((len(program.outputs[0]), program.group, samples.shape[1]))
    machine = _machines.of(program)
    registers = machine.registers
    for begin in range(0, groups, machine.at_once):
        # The last ones once more rather than a part of what is worked on at once.
        start = max(0, min(begin, groups - machine.at_once))
        size = min(machine.at_once, groups)
        part = samples[:, start : start + size + program.beyond]
        registers[: program.inputs, : part.shape[1]] = part
        for operation, one, other, into in machine.operations:
            operation(one, other, out=into)
        for window, values in enumerate(program.outputs):
            for rank, (register, shift) in enumerate(values):
                some = registers[register, shift : shift + size]
                found[rank, window, start : start + size] = some
    return found
