"""The counters of RDMA ports, file by file.

Layout: Documentation/ABI/stable/sysfs-class-infiniband. A device may have counters of its own
beside those of its ports (`DEVICE/hw_counters`); they are read as port "".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from probes.rdma.counters import KNOWN
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from probes.rdma.counters import Counter

SYSFS = Path("/sys/class")


@dataclass(frozen=True, slots=True)
class Sample:
    """One counter of one port now."""

    device: str
    port: str
    counter: Counter
    value: int


@dataclass(slots=True)
class Look:
    """What one pass over the tree gave.

    `unreadable`: files that are there and told no number ("N/A", an error), as DEVICE/PORT/NAME.
    `saturated`: counters that stand at their ceiling, where more is not counted.
    """

    devices: tuple[str, ...] = ()
    samples: list[Sample] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    saturated: list[str] = field(default_factory=list)


# What is said, and what helps, where `exists` is False.
ABSENT = (
    "this kernel has no RDMA: /sys/class/infiniband does not exist",
    "load the driver of the RDMA device, then restart the agent",
)


def exists(root: Path = SYSFS) -> bool:
    """Whether the kernel has RDMA at all: ib_core is loaded."""
    return (root / "infiniband").is_dir()


def look(root: Path = SYSFS) -> Look:
    """Read every file that means something. Never raises: a device may go at any moment."""
    devices = _names(root / "infiniband")
    found = Look(tuple(devices))
    for device in devices:
        folder = root / "infiniband" / device
        of_ports: set[tuple[str, str]] = set()
        for port in _names(folder / "ports"):
            of_ports |= _read_port(found, folder / "ports" / port, (device, port), frozenset())
        _read_port(found, folder, (device, ""), of_ports)
    return found


def _read_port(
    found: Look, folder: Path, place: tuple[str, str], told: AbstractSet[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Add a port's samples; what it told. `told` before is left out: it would count twice."""
    seen: set[tuple[str, str]] = set()
    device, port = place
    for name, counter, path in _files(folder):
        meaning = (counter.metric, counter.cause)
        if meaning in seen or meaning in told:
            continue
        value = _number(path)
        if value is None:
            found.unreadable.append(f"{device}/{port}/{name}")
            continue
        seen.add(meaning)
        if counter.ceiling and value == counter.ceiling:
            found.saturated.append(f"{device}/{port}/{name}")
        found.samples.append(Sample(device, port, counter, value))
    return seen


def _files(folder: Path) -> Iterator[tuple[str, Counter, Path]]:
    for kind, known in KNOWN.items():
        for name in _names(folder / kind):
            counter = known.get(name)
            if counter is not None:
                yield name, counter, folder / kind / name


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []  # absent, gone meanwhile or closed to us: nothing to read there


def _number(path: Path) -> int | None:
    """None for "N/A (no PMA)", an error of the driver, or anything else that is no count."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isascii() and text.isdigit() else None
