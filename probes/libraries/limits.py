"""What the shared watch of libraries may spend: `probes: libraries:` of the configuration."""

from __future__ import annotations

from pydantic import Field

from engine.config.model import Section


class Limits(Section):
    """Times in seconds. Reading a process' maps takes 0.1 ms, 2 ms for PyTorch.

    looks_per_poll: processes that the hook named and that are looked at in a poll; the rest waits.
    max_pending: named processes that may wait; with more, everything is swept instead.
    sweep_burst, sweep_rate: looks that sweeps may make at once, and per second on average (2 % of
    a core); one that finds a process unchanged counts a fifth. sweep_seconds: when everything is
    swept again. acquaintance_seconds: so long a process is looked at in every poll whose linker was
    not listened to when it started. max_remembered: processes remembered as seen. max_programs:
    programs without a dynamic linker that are remembered; programs_per_poll: looked into in a poll.
    """

    looks_per_poll: int = Field(default=200, ge=1)
    max_pending: int = Field(default=8192, ge=1)
    sweep_burst: int = Field(default=5000, ge=1)
    sweep_rate: float = Field(default=200.0, gt=0)
    sweep_seconds: float = Field(default=600.0, gt=0)
    sweep_seconds_without_hook: float = Field(default=30.0, gt=0)
    acquaintance_seconds: float = Field(default=20.0, ge=0)
    max_remembered: int = Field(default=65_536, ge=1)
    max_programs: int = Field(default=1024, ge=1)
    programs_per_poll: int = Field(default=10, ge=1)
