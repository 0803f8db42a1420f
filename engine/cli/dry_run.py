"""`stallwatch dry-run`: what rules would have said about recorded data."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine import timing
from engine.allocation import keep_freed_memory
from engine.cli.data import DATA_HELP, add_range, add_start_timestamps, open_noticed, read_range
from engine.cli.durations import read_interval
from engine.forecasts import ForecastSettings, add_options, load_forecaster
from engine.pipeline.replay import replay
from engine.pipeline.report import alert_table, report_text
from engine.promql.blocks import workers_at_hand
from engine.promql.engine import Options
from engine.rulegroup.dependencies import metrics_asked
from engine.rulegroup.options import GroupOptions
from engine.timestamps import format_rfc3339
from rules.loader import load_paths

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from engine.forecasts import Forecaster
    from engine.pipeline.replay import ReplayResult
    from engine.timing import Timing


class DryRunCommand:
    """Run rules against recorded data."""

    summary = "run rules against recorded data: which alerts would have fired, and when"
    example = (
        "stallwatch dry-run --rules rules/packs/comm.yaml --data /var/lib/stallwatch/recording"
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--rules", nargs="+", required=True, metavar="PATH", help="file, directory or glob"
        )
        parser.add_argument("--data", required=True, metavar="PATH", help=DATA_HELP)
        add_range(parser)
        parser.add_argument(
            "--interval",
            metavar="DURATION",
            help="evaluation interval of groups that name none; default: the recording's, else 10s",
        )
        parser.add_argument(
            "--fill",
            action="store_true",
            help="also evaluate the times that the recording says were skipped",
        )
        parser.add_argument(
            "--config",
            metavar="PATH",
            help="take external labels, intervals and look-back from a stallwatch.yaml",
        )
        parser.add_argument(
            "--no-delayed-name-removal",
            action="store_true",
            help="drop metric names at once, as Prometheus 2 did",
        )
        add_start_timestamps(parser)
        parser.add_argument(
            "--fail-on-alert", action="store_true", help="exit 1 if any alert fires"
        )
        group = parser.add_argument_group("who would have been told")
        group.add_argument(
            "--notify",
            action="store_true",
            help="count the messages that each receiver of --config would have had",
        )
        add_options(group)
        parser.add_argument("--format", choices=("table", "json"), default="table")
        parser.add_argument("--timing", action="store_true", help=timing.HELP)

    def run(self, args: argparse.Namespace) -> int:
        """Replay and print; exit 1 when a rule failed, or an alert fired under --fail-on-alert."""
        keep_freed_memory()
        with timing.told(wanted=args.timing) as clock:
            forecaster = _forecaster(args) if args.notify else None
            result = _replay(args, clock)
            with clock.part(timing.OUTPUT):
                forecast = None
                if forecaster is not None:
                    run = result.alerts, result.start_ms, result.end_ms
                    forecast = forecaster.forecast(*run)
                if args.format == "json":
                    more = {} if forecast is None else {"notifications": forecast.to_json()}
                    sys.stdout.writelines(report_text(result, more))
                else:
                    _print_table(result)
                    print("" if forecast is None else f"\n{forecast.text()}\n", end="")
                tell_failures(result)
        fired = args.fail_on_alert and result.alerts
        return 1 if fired or result.failures else 0


def _replay(args: argparse.Namespace, clock: Timing) -> ReplayResult:
    interval_ms = None if args.interval is None else read_interval(args.interval)
    files = load_paths(args.rules)
    with clock.part(timing.READ):
        names = metrics_asked(
            rule for file in files for group in file.groups for rule in group.rules
        )
        data = open_noticed(args.data, created=args.use_start_timestamps, names=names)
        start_ms, end_ms = read_range(args, data)
    options = _options(args)
    with _progress() as progress, clock.part(timing.ALERT_STATE):
        return replay(
            files,
            data,
            start_ms,
            end_ms,
            options,
            interval_ms=interval_ms,
            fill=args.fill,
            progress=progress,
            clock=clock,
        )


def _options(args: argparse.Namespace) -> GroupOptions:
    engine = Options(
        delayed_name_removal=not args.no_delayed_name_removal,
        start_timestamps=args.use_start_timestamps,
        workers=workers_at_hand(),
    )
    if args.config is None:
        return GroupOptions(engine=engine)
    # pydantic is slow to import, and most dry-runs need no configuration.
    from engine.config.loader import load_config

    return GroupOptions.of(load_config(args.config), engine)


def _forecaster(args: argparse.Namespace) -> Forecaster:
    from engine.config.loader import load_config

    return load_forecaster()(load_config(args.config), ForecastSettings.of(args))


@contextmanager
def _progress() -> Iterator[Callable[[float], None] | None]:
    """A bar on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print_table(result: ReplayResult) -> None:
    from rich.console import Console

    # On a terminal rich folds to its width; in a pipe every line stays whole.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    if result.alerts:
        console.print(alert_table(result))
    count = len(result.alerts)
    console.print(
        f"{count} {'alert' if count == 1 else 'alerts'} fired; {result.series} series, "
        f"{result.evaluations} rule evaluations",
        highlight=False,
    )


def tell_failures(result: ReplayResult) -> None:
    """What a rule could not do goes to stderr, so that JSON stays JSON."""
    for failure in result.failures:
        times = "once" if failure.count == 1 else f"{failure.count} times"
        print(
            f"{failure.place or failure.file}: group {failure.group}: rule {failure.rule}: "
            f"failed {times}, first at {format_rfc3339(failure.first_ms)}: {failure.message}",
            file=sys.stderr,
        )
    if not result.evaluations:
        span = f"{format_rfc3339(result.start_ms)} to {format_rfc3339(result.end_ms)}"
        print(
            f"warning: nothing was evaluated: no rule, or no evaluation time from {span}",
            file=sys.stderr,
        )
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if result.template_errors:
        print(
            f"warning: {result.template_errors} templates could not be expanded; the alerts' texts "
            "say why",
            file=sys.stderr,
        )
