"""What commands that read recorded data share: the data, a range of times, a selector."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.dataset import open_data
from engine.timestamps import format_rfc3339, parse_timestamp
from rules.errors import StallwatchError
from rules.promql.ast import VectorSelector
from rules.promql.parser import parse
from rules.source import Source

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from engine.dataset import Dataset
    from rules.promql.ast import Matcher

DATA_HELP = (
    "a recording, Parquet or CSV in long form, OpenMetrics or Prometheus text, or a folder of such"
)
TIME_HELP = "unix seconds or RFC 3339"


def add_range(parser: argparse.ArgumentParser) -> None:
    """Add --start and --end."""
    parser.add_argument("--start", metavar="TIME", help=f"{TIME_HELP}; default: the first sample")
    parser.add_argument("--end", metavar="TIME", help=f"{TIME_HELP}; default: the last sample")


def read_range(args: argparse.Namespace, data: Dataset) -> tuple[int, int]:
    """(start, end) in unix milliseconds. Raises StallwatchError."""
    start_ms = data.start_ms if args.start is None else read_time("--start", args.start)
    end_ms = data.end_ms if args.end is None else read_time("--end", args.end)
    if end_ms < start_ms:
        what = "--end is before --start"
        if args.end is None:
            what = "--start is after the last sample"
        elif args.start is None:
            what = "--end is before the first sample"
        span = f"{format_rfc3339(data.start_ms)} to {format_rfc3339(data.end_ms)}"
        raise StallwatchError(f"stallwatch: {what}\n    hint: the data span {span}")
    return start_ms, end_ms


def read_time(option: str, text: str) -> int:
    """Unix milliseconds. Raises StallwatchError."""
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise StallwatchError(
            f"stallwatch: {option}: {error}\n"
            "    hint: unix seconds (1700000000) or RFC 3339 (2026-01-02T03:04:05Z)"
        ) from None


def read_selector(text: str) -> Sequence[Matcher]:
    """The matchers of a selector without modifiers. Raises StallwatchError."""
    tree = parse(Source("--match", text))
    if not isinstance(tree, VectorSelector) or tree.offset is not None or tree.at is not None:
        raise StallwatchError(
            f"stallwatch: --match: '{text}' is not a plain selector\n"
            "    hint: for example 'tcp_retrans_total{task_id!=\"\"}'"
        )
    return tree.matchers


def add_start_timestamps(parser: argparse.ArgumentParser) -> None:
    """Add the switch that is named after Prometheus' feature flag."""
    parser.add_argument(
        "--use-start-timestamps",
        action="store_true",
        help="let start timestamps tell of resets in rate, irate, increase and resets, as under "
        "Prometheus' feature flag; in OpenMetrics text, _created lines are such",
    )


def open_noticed(
    path: str, *, created: bool = False, names: frozenset[str] | None = None
) -> Dataset:
    """Open data and tell what the reader assumed, on stderr; arguments as `open_data` has them."""
    data = open_data(path, created=created, names=names)
    for notice in data.notices:
        print(f"notice: {notice}", file=sys.stderr)
    return data
