"""How large the kernel's tables are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from engine.config.model import Section
from probes.tcp_retransmit.sockets import Looking

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = {
    "owners_limit": "owners",
    "processes_limit": "processes",
    "flows_limit": "flows",
    "connecting_limit": "connecting",
    "unexplained_limit": "unexplained",
    "closed_limit": "closed",
    "recovering_limit": "recovering",
    "tallies_limit": "tallies",
    "ring_pages": "ring_pages",
}
_Limit = Annotated[int, Field(strict=True, ge=1)]


class LimitSettings(Section):
    """What `probes: tcp_retransmit:` may hold; see `Limits`."""

    owners_limit: _Limit | None = None
    processes_limit: _Limit | None = None
    flows_limit: _Limit | None = None
    connecting_limit: _Limit | None = None
    unexplained_limit: _Limit | None = None
    closed_limit: _Limit | None = None
    recovering_limit: _Limit | None = None
    tallies_limit: _Limit | None = None
    ring_pages: _Limit | None = None
    sock_diag_interval_seconds: Annotated[float, Field(ge=0)] | None = None
    sock_diag_share: Annotated[float, Field(gt=0, le=1)] | None = None
    detail_limit: Annotated[int, Field(strict=True, ge=0)] | None = None


def looking_from_settings(settings: Mapping[str, object]) -> Looking:
    """How often sockets are listed; what is not set keeps the default."""
    names = {
        "sock_diag_interval_seconds": "interval_seconds",
        "sock_diag_share": "share",
        "detail_limit": "detail_limit",
    }
    chosen = {
        own: value
        for name, own in names.items()
        if isinstance(value := settings.get(name), int | float)
    }
    return Looking(**chosen)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of the kernel's tables; settable, and small ones force each loss.

    owners: open TCP sockets of the node. Linux gives 28,232 local ports to a destination by
    default; twice that, for both ends on one node, rounded up. 5 MB when full.
    processes: processes that use TCP. flows: sockets with a retransmit in about 30 s.
    connecting: sockets between SYN and its answer; four full backlogs (somaxconn 4,096).
    unexplained: connects that ended and of which no error was told yet, in about 10 s.
    closed: sockets that closed between two polls; the oldest is forgotten when there are more.
    recovering: sockets that repair a loss right now. tallies: 30 for a process at most, a thousand
    processes that connect. ring_pages: 256 KiB is 3,276 records (80 bytes each with the ring's own
    header) between two polls.
    """

    owners: int = 65_536
    processes: int = 8_192
    flows: int = 16_384
    connecting: int = 16_384
    unexplained: int = 8_192
    closed: int = 16_384
    recovering: int = 16_384
    tallies: int = 32_768
    ring_pages: int = 64

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Limits:
        """The probe's section of the configuration; what is no limit keeps the default."""
        chosen = {
            own: value
            for name, own in _NAMES.items()
            if isinstance(value := settings.get(name), int)
            and not isinstance(value, bool)
            and value > 0
        }
        return cls(**chosen)

    @property
    def ring_pages_rounded(self) -> int:
        """The kernel takes powers of two only: the next one."""
        return 1 << (self.ring_pages - 1).bit_length()

    def defines(self) -> dict[str, int]:
        """As the program names them."""
        return {
            "OWNERS_LIMIT": self.owners,
            "PROCESSES_LIMIT": self.processes,
            "FLOWS_LIMIT": self.flows,
            "CONNECTING_LIMIT": self.connecting,
            "UNEXPLAINED_LIMIT": self.unexplained,
            "CLOSED_LIMIT": self.closed,
            "RECOVERING_LIMIT": self.recovering,
            "TALLIES_LIMIT": self.tallies,
            "RING_PAGES": self.ring_pages_rounded,
        }
