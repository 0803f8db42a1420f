"""What a governor must know of functions and breakpoints, and what it says of its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probes.budget.control import Mode
    from probes.sampling.addresses import Span


class Sites(Protocol):
    """What the governor does to breakpoints; `FunctionSites` does it."""

    def suspend(self, name: str) -> None:
        """Detach a function in all files; does not wait for the kernel."""
        ...

    def resume(self, name: str) -> None:
        """Attach it again."""
        ...

    def attached(self, name: str) -> int:
        """Files in which it is attached."""
        ...

    def trap_codes(self, name: str) -> Sequence[bytes]:
        """The first bytes of each instruction at which it is or was attached."""
        ...

    def spans(self, name: str) -> Sequence[Span]:
        """Where its code lies, for mode `sampled`; empty: it cannot be sampled."""
        ...


class Probed(Protocol):
    """What the governor must know of a function; `Function` says it."""

    @property
    def name(self) -> str:
        """Label value and key."""
        ...

    @property
    def colder(self) -> tuple[str, ...]:
        """Functions that may stand in for it."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """A function's mode changed. `ratio`: what it would take of the worst process if watched."""

    function: str
    mode: Mode
    ratio: float
