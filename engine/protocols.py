"""What engine asks of the parts that plug into it: probes, commands, delivery.

Implementations register by entry point (`stallwatch.probes`, `stallwatch.commands`,
`stallwatch.receivers`, `stallwatch.notifiers`) and are loaded by name; engine never imports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import argparse
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.alert import Alert, Suppression
    from engine.config.model import Config
    from engine.http.message import Handler
    from engine.readings import ProbeOptions, ProbeStatus, Produced, Reading
    from engine.state.file import StateFile
    from engine.telemetry import OwnSample


class Probe(Protocol):
    """A source of readings. One thread calls start, poll, collect and stop, in that order.

    No method raises for what the machine lacks: that is a ProbeStatus. A class attribute `Config`,
    a pydantic model, says what its section of the configuration may hold besides `enabled`; without
    one nothing in it is checked.
    """

    name: str

    def start(self, options: ProbeOptions, emit: Callable[[Reading], None]) -> ProbeStatus:
        """Attach. `emit` hands a reading to the queue and never blocks."""
        ...

    def poll(self) -> None:
        """Drain rings, follow new processes. Called about twice a second, must not block."""
        ...

    def produced(self) -> Produced:
        """Read the kernel's own counters. Called just before `collect`."""
        ...

    def collect(self) -> None:
        """Drain maps: emit everything that was counted since the last call."""
        ...

    def status(self) -> ProbeStatus:
        """The present state."""
        ...

    def stop(self) -> None:
        """Detach everything. May be called at any time, twice too."""
        ...


class Command(Protocol):
    """A subcommand. `example` closes its --help."""

    summary: str
    example: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit status: 0 done, 1 found something, 2 could not run.

        Raises StallwatchError for what the user can mend (shown, exit 2).
        """
        ...


class Delivery(Protocol):
    """Takes alerts that fired or resolved and sees to it that receivers hear of them."""

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        """Write to the outbox inside the caller's transaction, so that alert state and outbox
        commit together or not at all. Each alert has just turned firing or resolved.
        """  # noqa: D205 - one sentence
        ...

    def start(self) -> None:
        """Begin to send, what an earlier run left behind first."""
        ...

    def wake(self) -> None:
        """The transaction that enqueued is committed."""
        ...

    def samples(self) -> Sequence[OwnSample]:
        """The stallwatch_notify_* metrics now."""
        ...

    def suppression(self, alert: Alert) -> Suppression:
        """What keeps notifications of an alert back now; called from any thread."""
        ...

    def mounted(self, alerts: Callable[[], Sequence[Alert]]) -> Mapping[str, Handler]:
        """The delivery's part of the HTTP API: who answers paths that begin like this.

        `alerts` gives the pending and firing alerts of all rules; handlers are called from several
        threads at once.
        """
        ...

    def stop(self, timeout_seconds: float) -> None:
        """Stop sending; what is not sent stays in the outbox."""
        ...


class OpenDelivery(Protocol):
    """Entry point `stallwatch.notifiers`: builds the delivery for a configuration."""

    def __call__(self, config: Config, state: StateFile) -> Delivery:
        """`state` is state.db; the tables of the outbox are made in it if missing."""
        ...
