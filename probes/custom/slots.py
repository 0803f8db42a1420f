"""Which slots a probe's calls are counted in, and its rule for the program. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from probes.custom.settings import MAX_ARGUMENTS, MAX_NAMES
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.readings import Pairs
    from probes.custom.settings import ProbeConfig

_WIDTHS = {"int": 2, "uint": 1, "long": 0, "ulong": 0, "size_t": 0}
_SIGNED = frozenset({"int", "long"})
# `struct custom_rule` of program.bpf.c.
_RULE = struct.Struct(f"=4I{MAX_NAMES}Q{2 * MAX_ARGUMENTS}I")


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of calls (`argument` None) or of an argument's values, with its calls' labels."""

    name: str
    probe: ProbeConfig
    labels: Pairs
    argument: tuple[int, str] | None = None

    def value(self, last: int) -> float:
        """The argument as its type has it."""
        if self.argument is not None and self.argument[1] in _SIGNED and last >> 63:
            return float(last - (1 << 64))
        return float(last)


@dataclass(frozen=True, slots=True)
class Plan:
    """All slots in order, and the rule of each probe as the map has it."""

    slots: tuple[Slot, ...]
    rules: tuple[bytes, ...]


def plan(probes: Sequence[ProbeConfig]) -> Plan:
    """Lay the slots out: a probe's calls by name of its label, then its arguments' likewise."""
    slots: list[Slot] = []
    rules: list[bytes] = []
    for probe in probes:
        rules.append(_rule(probe, len(slots)))
        slots += _slots(probe)
    return Plan(tuple(slots), tuple(rules))


def _slots(probe: ProbeConfig) -> Iterator[Slot]:
    fixed = tuple(sorted(probe.labels.items()))
    chosen = probe.label_from
    variants: list[Pairs] = [fixed]
    if chosen is not None:
        texts = [*chosen.names.values(), chosen.other]
        variants = [tuple(sorted((*fixed, (chosen.label, text)))) for text in texts]
    for argument in (None, *probe.arguments):
        for place, labels in enumerate(variants):
            about = "" if argument is None else f" argument {argument[0]} {argument[1]}"
            yield Slot(f"{probe.name}{about} {place}", probe, labels, argument)


def _rule(probe: ProbeConfig, first: int) -> bytes:
    chosen = probe.label_from
    values = [key % (1 << 64) for key in chosen.names] if chosen else []
    arguments = [number for number, _ in probe.arguments]
    widths = [_WIDTHS[kind] for _, kind in probe.arguments]
    return _RULE.pack(
        first,
        len(values),
        chosen.argument if chosen else 0,
        _WIDTHS[chosen.type] if chosen else 0,
        *_filled(values, MAX_NAMES),
        *_filled(arguments, MAX_ARGUMENTS),
        *_filled(widths, MAX_ARGUMENTS),
    )


def _filled(numbers: list[int], size: int) -> list[int]:
    return numbers + [0] * (size - len(numbers))
