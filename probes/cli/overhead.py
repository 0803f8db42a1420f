"""`stallwatch overhead -- COMMAND`: what the probes cost a command."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from importlib.metadata import entry_points
from pathlib import Path

LEAST_SLICE_SECONDS = 5.0


class OverheadCommand:
    """Runs a command with probes and without, in turns, and compares."""

    summary = "measure what the probes cost a command"
    example = "sudo stallwatch overhead --pairs 8 --limit 1.01 -- python train.py --steps 200"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "--pairs", type=_positive, default=8, metavar="N", help="of each kind (default 8)"
        )
        parser.add_argument(
            "--seconds",
            type=_slice,
            default=LEAST_SLICE_SECONDS,
            metavar="S",
            help="of a slice with or without probes, where steps are told (default and least 5)",
        )
        parser.add_argument("--probes", metavar="A,B", help="only these (default: all)")
        parser.add_argument(
            "--step-file",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="the command goes on, and adds the time of each step's end to this file, in "
            "seconds; one for each rank",
        )
        parser.add_argument(
            "--step-lines",
            default="",
            metavar="REGEX",
            help="the command goes on, and a line of its output that matches ends a step",
        )
        parser.add_argument(
            "--limit", type=_positive_float, metavar="RATIO", help="exit 1 above this upper bound"
        )
        parser.add_argument("--format", choices=("text", "json"), default="text")
        parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")

    def run(self, args: argparse.Namespace) -> int:
        """Measure and print; 1 when the upper bound is above --limit."""
        from probes.overhead.errors import OverheadError
        from probes.overhead.measurement import Request, chosen, measure

        command = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
        if not command:
            raise OverheadError(
                "overhead: no command\n    hint: stallwatch overhead -- python train.py"
            )
        installed = tuple(sorted(each.name for each in entry_points(group="stallwatch.probes")))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing outlives this
        result = measure(
            Request(
                command,
                args.pairs,
                args.seconds,
                chosen(args.probes, installed),
                installed,
                tuple(args.step_file),
                args.step_lines,
            )
        )
        above = result.is_above(args.limit)
        if args.format == "json":
            print(json.dumps({"ok": not above, "limit": args.limit, **result.json()}, indent=2))
        else:
            print(result.text())
            if above:
                print(f"\nThe upper bound is above {args.limit:g}.")
        return int(above)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a number of pairs: {text!r}")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"not a ratio: {text!r}; write 1.01 for 1 %")
    return value


def _slice(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not LEAST_SLICE_SECONDS <= value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"not a slice: {text!r}; at least {LEAST_SLICE_SECONDS:g} seconds, as attaching and "
            "detaching take a part of one"
        )
    return value
