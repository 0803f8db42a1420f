"""Why a probe cannot run here, in one stable word and two sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine.readings import ProbeStatus
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from typing import TypeAlias

# The stable words: used as the label `reason` of stallwatch_probe_up, so never renamed.
Reason: TypeAlias = Literal[
    "no_root",
    "no_bcc",
    "no_headers",
    "missing_capability",
    "no_tracefs",
    "no_tracepoint",
    "no_uprobe",
    "no_kprobe",
    "no_clock",
    "too_costly",
    "old_kernel",
    "verifier",
    "compile",
    "compiler_died",
    "lockdown",
    "pid_namespace",
    "library_absent",
    "attach_failed",
    "disabled",
]


class UnavailableError(StallwatchError):
    """Something that a probe needs is not to be had on this machine.

    `reason`: the stable word. `detail`: what was seen. `mend`: what the administrator can do.
    """

    def __init__(self, reason: Reason, detail: str, mend: str = "") -> None:
        super().__init__(f"{detail}\n    hint: {mend}" if mend else detail)
        self.reason: Reason = reason
        self.detail = detail
        self.mend = mend

    def status(self, probe: str, state: Literal["degraded", "off"] = "off") -> ProbeStatus:
        """The honest line about the probe that met this."""
        return ProbeStatus(probe, state, self.reason, self.detail, self.mend)

    def polled(self, probe: str, how: str) -> ProbeStatus:
        """The line about a probe that goes on by polling, `how` being what it polls."""
        detail = f"{self.detail}; poller: {how}"
        return ProbeStatus(probe, "degraded", "poller", detail, self.mend)
