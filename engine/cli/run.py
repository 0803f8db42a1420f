"""`stallwatch run`: the agent, in the foreground."""

from __future__ import annotations

import contextlib
import logging
import queue
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from engine.cli.fingerprint import Fingerprint
    from engine.config.model import Config
    from engine.pipeline.agent import Agent
    from engine.readings import ProbeStatus
    from rules.model import RuleFile

LOG = logging.getLogger("stallwatch")


class RunCommand:
    """Start the agent on this machine."""

    summary = "run the agent: probes, rules, alerts and the HTTP API"
    example = "stallwatch run --config /etc/stallwatch/stallwatch.yaml"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--config", metavar="FILE", help="configuration file")
        parser.add_argument(
            "--rules", metavar="PATH", nargs="+", help="rule files (else the configuration's)"
        )
        parser.add_argument("--listen", metavar="HOST:PORT", help="address of the HTTP API")
        parser.add_argument("--state", metavar="DIR", help="folder for state and recordings")

    def run(self, args: argparse.Namespace) -> int:
        """Run until SIGINT or SIGTERM; SIGHUP loads the rules again, and only them."""
        from engine.cli.fingerprint import Fingerprint
        from engine.config.loader import load_config
        from engine.http.server import serve
        from engine.pipeline.agent import Agent
        from engine.pipeline.view import AgentView
        from engine.plugins import load_delivery, load_probes

        logging.basicConfig(
            stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
        )
        _allow_open_files()
        config = _configured(load_config(args.config), args)
        started = Fingerprint.of(args.config, config)
        files = load_rules(config, args.rules)
        signals = _listen_to_signals()
        agent = Agent(config, files, load_probes(), load_delivery())
        try:
            server = serve(config.listen, AgentView(agent))
        except StallwatchError:
            agent.stop()
            raise
        try:
            agent.start()
            print(report(agent, server.url), flush=True)
            _serve_signals(signals, agent, lambda: _reload(agent, args.rules, args.config, started))
        finally:
            server.stop()
            agent.stop()
        return 0


def _allow_open_files() -> None:
    """Every attached probe is an open file, and services begin with a limit of 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _listen_to_signals() -> queue.SimpleQueue[int]:
    """Signals as they come, from now on.

    A handler only puts: one that did the work would interrupt itself, or wait for a lock that the
    very code it interrupted holds. SimpleQueue.put alone is made for that.
    """
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: signals.put(received))
    return signals


def _serve_signals(
    signals: queue.SimpleQueue[int], agent: Agent, reload: Callable[[], object]
) -> None:
    """Return on SIGINT or SIGTERM; any number of SIGHUPs that wait are one reload.

    Raises StallwatchError when the agent cannot go on.
    """
    while True:
        received: set[int] = set()
        with contextlib.suppress(queue.Empty):
            received.add(signals.get(timeout=1.0))
            while True:
                received.add(signals.get_nowait())
        if received - {signal.SIGHUP}:
            return
        if agent.fault:
            raise StallwatchError(f"stallwatch: {agent.fault}")
        if received:
            reload()


def load_rules(config: Config, paths: Sequence[str] | None) -> tuple[RuleFile, ...]:
    """The rules to run: those named, else the configuration's, else the shipped packs.

    Raises ProblemsError for rules that do not load.
    """
    from rules.loader import load_paths
    from rules.packs import shipped

    return load_paths(
        paths or config.rule_files or shipped(),
        warn=lambda problem: LOG.warning("%s", problem.render()),
    )


def report(agent: Agent, url: str) -> str:
    """What is running, for the terminal: probes, rules, address."""
    rules = sum(len(group.rules) for file in agent.files for group in file.groups)
    groups = sum(len(file.groups) for file in agent.files)
    lines = [probe_table(list(agent.collector.statuses.values())), ""]
    lines.append(f"rules     {rules} in {groups} groups of {len(agent.files)} files")
    receivers = ", ".join(receiver.name for receiver in agent.config.receivers)
    lines.append(f"receivers {receivers or 'none (alerts show on the API and in the log)'}")
    kept = str(agent.config.state_dir)
    if not agent.state.durable:
        kept = f"in memory, for {kept} cannot be written (the log says why)"
    lines.append(f"state     {kept}")
    lines.append(f"listening {url} (/metrics, /api/v1/alerts, /api/v1/query)")
    return "\n".join(lines)


def probe_table(statuses: Sequence[ProbeStatus]) -> str:
    """One honest line per probe, with the mend under each that could do more."""
    width = max((len(status.probe) for status in statuses), default=5)
    lines = [f"{'PROBE':<{width}}  STATE     REASON"]
    for status in statuses:
        about = ": ".join(part for part in (status.reason, status.detail) if part)
        lines.append(f"{status.probe:<{width}}  {status.state:<8}  {about}".rstrip())
        if status.mend:
            lines.append(f"{'':<{width}}            mend: {status.mend}")
    return "\n".join(lines)


def _configured(config: Config, args: argparse.Namespace) -> Config:
    """The configuration with the command line's say on top. Raises StallwatchError."""
    from engine.config.model import Config as Model

    changes: dict[str, object] = {}
    if args.listen:
        changes["listen"] = args.listen
    if args.state:
        changes["state_dir"] = Path(args.state)
    if not changes:
        return config
    try:
        # Built by hand rather than copied, so that an address is checked here too.
        return Model.model_validate({**dict(config), **changes})
    except ValueError as error:
        raise StallwatchError(
            f"stallwatch: --listen {args.listen}: not HOST:PORT\n    hint: --listen 127.0.0.1:9466"
        ) from error


def _reload(
    agent: Agent, paths: Sequence[str] | None, named: str | None, started: Fingerprint
) -> None:
    """Load the rules again; with rules that do not load, the present ones go on."""
    _tell_changes(agent.config, named, started)
    try:
        files = load_rules(agent.config, paths)
    except StallwatchError as error:
        LOG.error("the rules were not loaded again, the present ones go on:\n%s", error)  # noqa: TRY400 - the message is for the user, a traceback is not
        return
    agent.reload(files)
    LOG.info("rules loaded again: %d files", len(files))


def _tell_changes(config: Config, named: str | None, started: Fingerprint) -> None:
    """Say which files of the configuration changed: whoever signals may expect them to count."""
    from engine.cli.fingerprint import Fingerprint
    from engine.config.loader import load_config

    try:
        changed = started.changed(Fingerprint.of(named, config))
        if not changed:
            return
        LOG.warning(
            "the configuration changed since the start, and needs a restart to count (SIGHUP loads "
            "rules only): %s",
            ", ".join(changed),
        )
        load_config(named)
    except StallwatchError as error:
        LOG.error("with the configuration as it is now no agent would start:\n%s", error)  # noqa: TRY400 - likewise
