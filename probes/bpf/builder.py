"""What a loader of programs is asked for, and what it hands over.

bcc in a child process is one `Builder`; a loader of precompiled (CO-RE) objects is another: whoever
hands over the descriptors of loaded programs and of maps has done all that the rest asks for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from probes.bpf.errors import Reason

# What holds whoever builds: the kernel refuses this process, not this program.
_FINAL: frozenset[Reason] = frozenset({"no_root", "missing_capability", "lockdown"})


@dataclass(frozen=True, slots=True)
class Source:
    """One program.bpf.c. `programs`: BPF_PROG_TYPE_* by function; `defines`: its settings."""

    path: Path
    programs: Mapping[str, int]
    defines: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The probe's folder and the file, for messages."""
        return f"{self.path.parent.name}/{self.path.name}"


@dataclass(slots=True)
class Built:
    """Descriptors of loaded programs and of maps by name; the kernel keeps both while open."""

    program_fds: dict[str, int]
    map_fds: dict[str, int]

    def close(self) -> None:
        """Let go of all. Twice is fine."""
        for fd in (*self.program_fds.values(), *self.map_fds.values()):
            os.close(fd)
        self.program_fds, self.map_fds = {}, {}


class Builder(Protocol):
    """A way from a source to loaded programs."""

    @property
    def name(self) -> str:
        """The step's name in messages."""
        ...

    def build(self, source: Source) -> Built:
        """Raises UnavailableError; reason "no_headers": this way does not exist here."""
        ...


@dataclass(frozen=True, slots=True)
class Left:
    """A step of the loader order that was left, and why."""

    step: str
    reason: Reason
    detail: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {self.detail}"


def build_first(source: Source, builders: Sequence[Builder]) -> tuple[Built, str, tuple[Left, ...]]:
    """The programs, the name of the step that built them, and the steps left before it.

    Raises UnavailableError with the reason of the first step that was tried, and in its detail
    what each step met.
    """
    left: list[Left] = []
    for builder in builders:
        built = _try(builder, source, left)
        if built is not None:
            return built, builder.name, tuple(left)
    raise _none_is_left(left)


def _try(builder: Builder, source: Source, left: list[Left]) -> Built | None:
    try:
        return builder.build(source)
    except UnavailableError as error:
        if error.reason in _FINAL:
            raise
        left.append(Left(builder.name, error.reason, error.detail, error.mend))
        return None


def _none_is_left(left: Sequence[Left]) -> UnavailableError:
    tried = [step for step in left if step.reason != "no_headers"] or left
    first = tried[0]
    if len({step.reason for step in left}) == 1:
        return UnavailableError(first.reason, first.detail, first.mend)  # bcc itself is missing
    return UnavailableError(first.reason, "; ".join(map(str, left)), first.mend)
