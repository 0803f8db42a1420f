"""`stallwatch import`: other data as a recording."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.cli.data import DATA_HELP, open_noticed
from engine.recording.importing import import_data

if TYPE_CHECKING:
    import argparse


class ImportCommand:
    """Make a recording of other data, or add to one."""

    summary = "make a recording of CSV, Parquet, OpenMetrics or another recording"
    example = "stallwatch import node1.csv node2.parquet --out rec/"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("sources", nargs="+", metavar="SRC", help=DATA_HELP)
        parser.add_argument("--out", required=True, metavar="DIR", help="made if it is not there")

    def run(self, args: argparse.Namespace) -> int:
        """Import all; exit 0."""
        # All are opened first, so that a broken one leaves nothing half done.
        opened = [(source, open_noticed(source)) for source in args.sources]
        for source, data in opened:
            found = import_data(data, args.out)
            print(
                f"{source}: {found.series} series, {found.samples} samples, {found.files} files",
                file=sys.stderr,
            )
        return 0
