"""`stallwatch query`: one expression over recorded data."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import timing
from engine.allocation import keep_freed_memory
from engine.baselines.of_data import folds_of
from engine.cli.data import (
    DATA_HELP,
    TIME_HELP,
    add_range,
    add_start_timestamps,
    open_noticed,
    read_range,
    read_time,
)
from engine.cli.durations import read_duration
from engine.labels import Labels
from engine.promql.blocks import workers_at_hand
from engine.promql.engine import EvaluationError, Options, evaluate
from engine.promql.json_encoding import encode
from engine.promql.value import Axis
from engine.rulegroup.dependencies import metrics_in
from engine.terminal import harmless
from engine.timestamps import format_rfc3339
from engine.timing import TimedQueryable
from rules.errors import StallwatchError
from rules.promql.ast import ValueType
from rules.promql.parser import parse
from rules.promql.types import type_of
from rules.promql.walk import selectors
from rules.source import Problem, ProblemsError, Source

if TYPE_CHECKING:
    import argparse

    from engine.dataset import Dataset
    from engine.series import Int64Array
    from engine.timing import Timing
    from rules.promql.ast import Expr

MAX_STEPS = 1_000_000
# Without --step: the data's own spacing, but never more rows than a person can page through.
DEFAULT_STEPS = 11_000


class QueryCommand:
    """Evaluate an expression over recorded data."""

    summary = "evaluate a PromQL expression over recorded data"
    example = "stallwatch query 'rate(tcp_retrans_total[5m])' --data rec/ --step 30s --format json"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("expression", metavar="EXPR")
        parser.add_argument("--data", required=True, metavar="PATH", help=DATA_HELP)
        add_range(parser)
        parser.add_argument(
            "--step", metavar="DURATION", help="30s, 5m or seconds; default: the data's spacing"
        )
        parser.add_argument("--time", metavar="TIME", help=f"one time only: {TIME_HELP}")
        parser.add_argument(
            "--at",
            choices=("samples",),
            help="evaluate at the time of each sample that the expression's selectors find",
        )
        parser.add_argument("--lookback", default="5m", metavar="DURATION", help="default: 5m")
        parser.add_argument(
            "--no-delayed-name-removal",
            action="store_true",
            help="drop metric names at once, as Prometheus 2 did",
        )
        add_start_timestamps(parser)
        parser.add_argument("--format", choices=("table", "json"), default="table")
        parser.add_argument("--timing", action="store_true", help=timing.HELP)

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate and print; exit 0."""
        with timing.told(wanted=args.timing) as clock:
            self._run(args, clock)
        return 0

    @staticmethod
    def _run(args: argparse.Namespace, clock: Timing) -> None:
        keep_freed_memory()
        source = Source("<expression>", args.expression)
        tree = parse(source)
        with clock.part(timing.READ):
            opened = open_noticed(
                args.data, created=args.use_start_timestamps, names=metrics_in(tree)
            )
            data = opened.with_derived()
        options = Options(
            lookback_ms=read_duration("--lookback", args.lookback),
            delayed_name_removal=not args.no_delayed_name_removal,
            source=source,
            start_timestamps=args.use_start_timestamps,
            workers=workers_at_hand(),
            folds=folds_of(data),
        )
        with clock.part(timing.READ):
            axis, shown = _axes(args, tree, data)
        kind = type_of(tree)
        if shown.step_ms and kind in {ValueType.STRING, ValueType.MATRIX}:
            raise StallwatchError(
                f"stallwatch: a {kind.value} has no value over a range of times\n"
                "    hint: ask for one time with --time, or wrap it in a function such as rate()"
            )
        try:
            with clock.part(timing.EVALUATE):
                result = evaluate(tree, axis, TimedQueryable(data, clock), options)
        except EvaluationError as error:
            if error.span is None:
                raise
            raise ProblemsError([Problem(source, error.span, str(error))]) from None
        with clock.part(timing.OUTPUT):
            for text in (*result.warnings, *result.infos):
                print(text, file=sys.stderr)
            encoded = encode(result, shown)
            if args.format == "json":
                print(json.dumps(encoded, ensure_ascii=False))
            else:
                _print_table(encoded)


def _axes(args: argparse.Namespace, tree: Expr, data: Dataset) -> tuple[Axis, Axis]:
    """The axis to evaluate on, and the one that says how the answer is written."""
    if args.time is not None:
        if args.start or args.end or args.step or args.at:
            raise StallwatchError(
                "stallwatch: --time is one time; it excludes --start, --end, --step and --at"
            )
        axis = Axis.instant(read_time("--time", args.time))
        return axis, axis
    start_ms, end_ms = read_range(args, data)
    times = None
    if args.at is not None or args.step is None:
        times = _sample_times(tree, data, start_ms, end_ms)
    if args.at is not None and times is not None:
        if args.step:
            raise StallwatchError("stallwatch: --at samples excludes --step")
        return Axis(times, 0, rule=True), Axis(times, 1)
    if args.step is None:
        step_ms = _spacing(times, end_ms - start_ms)
    else:
        step_ms = read_duration("--step", args.step)
    if (end_ms - start_ms) // step_ms > MAX_STEPS:
        raise StallwatchError(
            f"stallwatch: more than {MAX_STEPS:,} steps between --start and --end\n"
            "    hint: choose a larger --step"
        )
    axis = Axis.span(start_ms, end_ms, step_ms)
    return axis, axis


def _sample_times(tree: Expr, data: Dataset, start_ms: int, end_ms: int) -> Int64Array:
    arrays = [
        series.timestamps_ms
        for selector in selectors(tree)
        for series in data.select(selector.matchers, start_ms, end_ms)
    ]
    distinct = {id(array): array for array in arrays}
    if not distinct:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.concatenate(list(distinct.values())))


def _spacing(times: Int64Array | None, span_ms: int) -> int:
    """The median distance of sample times, no less than what gives DEFAULT_STEPS steps."""
    median = int(np.median(np.diff(times))) if times is not None and times.size > 1 else 10_000
    return max(median, -(-span_ms // DEFAULT_STEPS), 1)


def _print_table(data: dict[str, Any]) -> None:
    kind, result = data["resultType"], data["result"]
    if kind in {"scalar", "string"}:
        print(result[1])
        return
    if not result:
        print("(no data)", file=sys.stderr)
    for row in result:
        name = _metric(row["metric"])
        if kind == "vector":
            print(f"{name}  {row['value'][1]}")
            continue
        print(name)
        for seconds, value in row["values"]:
            print(f"  {format_rfc3339(round(seconds * 1000)):<24}  {value}")


def _metric(metric: dict[str, str]) -> str:
    return harmless(str(Labels(metric)) or "{}")
