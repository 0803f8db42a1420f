"""`stallwatch export`: recorded data as a file that other tools read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from engine.cli.data import DATA_HELP, add_range, open_noticed, read_range, read_selector
from engine.dataset.csv_writing import write_csv
from engine.dataset.dataset import union
from engine.dataset.exposition import write_openmetrics
from engine.dataset.parquet_form import write_parquet
from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from engine.series import Series

FORMATS = {"csv": ".csv", "openmetrics": ".om", "parquet": ".parquet"}


class ExportCommand:
    """Write recorded data as CSV, OpenMetrics or Parquet."""

    summary = "write recorded data as CSV, OpenMetrics or Parquet"
    example = "stallwatch export rec/ --format csv --match 'comm_wait_ratio' --out waits.csv"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        parser.add_argument("--format", choices=tuple(FORMATS), help="default: by --out's ending")
        parser.add_argument("--out", required=True, metavar="FILE", help="- is standard output")
        parser.add_argument(
            "--match", action="append", default=[], metavar="SELECTOR", help="may be repeated"
        )
        add_range(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Write; exit 0."""
        kind = args.format or next(
            (name for name, suffix in FORMATS.items() if args.out.endswith(suffix)), None
        )
        if kind is None:
            raise StallwatchError(
                f"stallwatch: cannot tell the format of '{args.out}'\n"
                "    hint: --format csv, openmetrics or parquet"
            )
        if kind == "parquet" and args.out == "-":
            raise StallwatchError("stallwatch: Parquet needs a file: --out FILE")
        questions = [read_selector(text) for text in args.match] or [()]
        data = open_noticed(args.data)
        start_ms, end_ms = read_range(args, data)
        plain = _once([data.select(one, start_ms, end_ms) for one in questions])
        derived = _once([data.select_derived(one, start_ms, end_ms) for one in questions])
        if not plain and not derived:
            raise StallwatchError(
                f"{args.data}: no sample matches\n"
                "    hint: without --match, --start and --end everything is exported"
            )
        _write(kind, args.out, plain, derived)
        samples = sum(one.values.size for one in (*plain, *derived))
        print(f"{len(plain) + len(derived)} series, {samples} samples", file=sys.stderr)
        return 0


def _once(found: list[list[Series]]) -> Sequence[Series]:
    """Series that several selectors found, once each."""
    distinct = {one.labels: one for series in found for one in series}
    return sorted(distinct.values(), key=lambda one: one.labels)


def _write(kind: str, out: str, plain: Sequence[Series], derived: Sequence[Series]) -> None:
    if out == "-":
        _write_text(kind, sys.stdout, plain, derived)
        return
    place = Path(out)
    if place.is_dir():
        raise StallwatchError(f"{out}: is a folder\n    hint: name a file in it")
    if place.exists() and not place.is_file():
        # A device or pipe is written to; a file put in its place would be the end of /dev/null.
        _write_file(kind, place, plain, derived)
        return
    # Written beside its place, so that a failure leaves no half file under the name.
    temporary = Path(f"{out}.tmp")
    try:
        _write_file(kind, temporary, plain, derived)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _write_file(kind: str, place: Path, plain: Sequence[Series], derived: Sequence[Series]) -> None:
    if kind == "parquet":
        write_parquet(str(place), plain, derived)
        return
    with place.open("w", encoding="utf-8", newline="") as file:
        _write_text(kind, file, plain, derived)


def _write_text(
    kind: str, file: TextIO, plain: Sequence[Series], derived: Sequence[Series]
) -> None:
    if kind == "csv":
        write_csv(file, plain, derived)
        return
    markers = write_openmetrics(file, union([*plain, *derived]))
    if markers:
        print(
            f"notice: {markers} staleness markers are left out: OpenMetrics cannot spell them "
            "(CSV and Parquet can)",
            file=sys.stderr,
        )
