"""How large the kernel's tables are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.config.model import Section

_Limit = Annotated[int, Field(strict=True, ge=1)]


class ProcessSettings(Section):
    """What `probes: process:` may hold.

    cgroups_limit: control groups in which a program starts between two flushes; a node of 250 pods
    has about a thousand. fatal_limit: processes that took up a deadly signal and have not ended,
    which is a matter of milliseconds unless they write a core. ring_pages: 16 pages hold 1,024 ends
    between two polls.
    """

    cgroups_limit: _Limit = 4_096
    fatal_limit: _Limit = 8_192
    ring_pages: _Limit = 16

    def defines(self, *, ends: bool) -> dict[str, int]:
        """As the program names them; without `ends` it counts program starts only."""
        found = {"CGROUPS_LIMIT": self.cgroups_limit}
        if ends:
            # The kernel takes powers of two only.
            pages = 1 << (self.ring_pages - 1).bit_length()
            found |= {"FATAL_LIMIT": self.fatal_limit, "RING_PAGES": pages}
        return found
