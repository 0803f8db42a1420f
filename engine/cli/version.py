"""`stallwatch version`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.cli import installed

if TYPE_CHECKING:
    import argparse


class VersionCommand:
    """Print the version."""

    summary = "print the version"
    example = "stallwatch version --format json"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add --format."""
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print; exit 0."""
        facts = {"version": installed.version(), "python": sys.version.split()[0].rstrip("+")}
        if args.format == "json":
            import json

            from engine.baselines.anomaly.threshold import ANOMALY_THRESHOLD

            print(json.dumps({**facts, "anomaly_threshold": ANOMALY_THRESHOLD}))
        else:
            print(f"stallwatch {facts['version']} (Python {facts['python']})")
        return 0
