"""`stallwatch record`: probes and a recording, no rules."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from engine.alerts.alert import Suppression

if TYPE_CHECKING:
    import argparse
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from engine.alerts.alert import Alert
    from engine.config.model import Config
    from engine.http.message import Handler
    from engine.state.file import StateFile
    from engine.telemetry import OwnSample


class NoDelivery:
    """Without rules there is nobody to tell."""

    def __call__(self, config: Config, state: StateFile) -> NoDelivery:  # noqa: ARG002 - the protocol's
        """Itself: an `OpenDelivery`."""
        return self

    def enqueue(self, connection: sqlite3.Connection, alerts: Sequence[Alert]) -> None:
        """Nothing is sent."""

    def start(self) -> None:
        """Nothing is sent."""

    def wake(self) -> None:
        """Nothing is sent."""

    def samples(self) -> Sequence[OwnSample]:
        """Nothing is counted."""
        return ()

    def suppression(self, alert: Alert) -> Suppression:  # noqa: ARG002 - the protocol's
        """Nothing is kept back, for nothing is sent."""
        return Suppression()

    def mounted(self, alerts: Callable[[], Sequence[Alert]]) -> Mapping[str, Handler]:  # noqa: ARG002 - the protocol's
        """Nothing is answered."""
        return {}

    def stop(self, timeout_seconds: float) -> None:
        """Nothing is open."""


class RecordCommand:
    """Record what the probes see, to dry-run rules on it later."""

    summary = "record what the probes see, without evaluating rules"
    example = "stallwatch record --out /tmp/slow-job --seconds 600"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--out", metavar="DIR", required=True, help="folder of the recording")
        parser.add_argument("--seconds", type=float, metavar="N", help="stop after this long")
        parser.add_argument("--config", metavar="FILE", help="configuration file")

    def run(self, args: argparse.Namespace) -> int:
        """Record until SIGINT, SIGTERM or the time is over. Raises StallwatchError."""
        from engine.cli.run import probe_table
        from engine.config.loader import load_config
        from engine.pipeline.agent import Agent
        from engine.plugins import load_probes

        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        # Alert state of a running agent is none of ours: a throwaway folder takes its place.
        with tempfile.TemporaryDirectory(prefix="stallwatch-record-") as scratch:
            config = load_config(args.config).model_copy(update={"state_dir": Path(scratch)})
            agent = Agent(config, (), load_probes(), NoDelivery(), recording=Path(args.out))
            agent.start()
            print(probe_table(list(agent.collector.statuses.values())), flush=True)
            print(f"recording into {args.out}; Ctrl-C ends it", flush=True)
            stop.wait(args.seconds)
            agent.stop()
        print(f"recorded: stallwatch dry-run --rules RULES --data {args.out}")
        return 0
