"""The settings of the probe; README.md says what each is for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.config.model import Section
from probes.budget.settings import BudgetConfig

_Pages = Annotated[int, Field(strict=True, ge=1, le=4096)]


class NcclSettings(Section):
    """What `probes: nccl:` may hold.

    slow_init_seconds: an initialisation that takes longer is an event. communicators: how many of a
    process are named in metrics, the others together are `other`. events: of one process between
    two polls, the others are counted only. wait_of: whose collectives make a thread's synchronise
    a wait. event_pages: 16 pages hold 800 events between two polls. sequence: keep the order of
    calls, sequence_length of each process; sequence_pages: 64 pages hold 5,400 calls of the node
    between two polls. budget: what the probe may take from a process.
    """

    slow_init_seconds: Annotated[float, Field(gt=0)] = 60.0
    communicators: Annotated[int, Field(strict=True, ge=0, le=1024)] = 16
    events: Annotated[int, Field(strict=True, ge=0, le=1000)] = 10
    wait_of: Literal["process", "thread"] = "process"
    event_pages: _Pages = 16
    sequence: bool = False
    sequence_pages: _Pages = 64
    sequence_length: Annotated[int, Field(strict=True, ge=16, le=65536)] = 1024
    budget: BudgetConfig = BudgetConfig()
    max_files: Annotated[int, Field(strict=True, ge=1, le=4096)] = 256

    def defines(self) -> dict[str, int]:
        """As the program names them; the kernel takes powers of two only."""
        found = {"EVENT_PAGES": 1 << (self.event_pages - 1).bit_length()}
        if self.wait_of == "thread":
            found["BY_THREAD"] = 1
        if self.sequence:
            found |= {"SEQUENCE": 1, "SEQUENCE_PAGES": 1 << (self.sequence_pages - 1).bit_length()}
        return found
