"""`stallwatch test`: promtool's unit-test files and tests of delivery, run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rules.errors import StallwatchError

if TYPE_CHECKING:
    import argparse

    from engine.ruletest.coverage import Coverage
    from engine.ruletest.verdict import SuiteVerdict


class RuleTestCommand:
    """Run unit tests of rules, and what else registers as a kind of test."""

    summary = "run unit tests of rules, in promtool's format, and tests of delivery"
    example = "stallwatch test tests/*.test.yaml"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the files and switches."""
        parser.add_argument(
            "files", nargs="+", metavar="FILE", help="unit-test file, glob or directory"
        )
        parser.add_argument(
            "--run",
            action="append",
            metavar="REGEX",
            help="run only tests whose name it finds; may be repeated",
        )
        parser.add_argument(
            "--ignore-unknown-fields",
            action="store_true",
            help="pass over fields of rule files that rules do not have",
        )
        parser.add_argument(
            "--use-start-timestamps",
            action="store_true",
            help="let start timestamps (series with @st) tell of resets, as under Prometheus' "
            "feature flag",
        )
        parser.add_argument(
            "--coverage",
            action="store_true",
            help="also name the rules and comparisons that the tests do not try",
        )
        parser.add_argument("--format", choices=("text", "json", "junit"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Run every file; exit 1 when a check failed, 2 when a file could not run."""
        from engine.ruletest.coverage import Coverage
        from engine.ruletest.kinds import runner_of
        from engine.ruletest.running import RunOptions

        coverage = Coverage() if args.coverage else None
        options = RunOptions(
            _pattern(args.run), args.ignore_unknown_fields, coverage, args.use_start_timestamps
        )
        verdicts = []
        for path in _suites(args.files):
            verdict = runner_of(path)(path, options)
            verdicts.append(verdict)
            if args.format == "text":
                _print(verdict)
        if args.run and not any(verdict.scenarios or verdict.problems for verdict in verdicts):
            print("stallwatch: no test has a name that --run finds", file=sys.stderr)
        if args.format == "json":
            _print_json(verdicts, coverage)
        elif args.format == "junit":
            from engine.ruletest.reports.junit import render

            print(render(verdicts), end="")
        if coverage is not None and args.format != "json":
            _print_coverage(coverage, sys.stdout if args.format == "text" else sys.stderr)
        statuses = {verdict.status for verdict in verdicts}
        return 2 if "error" in statuses else int("failed" in statuses)


def _suites(paths: list[str]) -> list[Path]:
    """The files named, and of directories those that hold tests."""
    from engine.ruletest.kinds import is_test
    from rules.decoding import UnreadableError
    from rules.loader import find_files

    found: dict[Path, None] = {}
    for path in paths:
        files = find_files([path])
        if Path(path).is_dir():
            files = tuple(file for file in files if is_test(file))
            if not files:
                raise UnreadableError(f"{path}: no unit-test file there (one has 'tests')")
        found.update(dict.fromkeys(files))
    return list(found)


def _pattern(texts: list[str] | None) -> re.Pattern[str] | None:
    """Several patterns are alternatives, as promtool's are."""
    if not texts:
        return None
    try:
        return re.compile("|".join(texts))
    except (re.error, RecursionError, OverflowError) as error:
        raise StallwatchError(f"stallwatch: --run: not a regular expression: {error}") from None


def _print(verdict: SuiteVerdict) -> None:
    from engine.ruletest.reports.text import render_suite

    stream = sys.stderr if verdict.status == "error" else sys.stdout
    print(render_suite(verdict), file=stream, flush=True)


def _print_json(verdicts: list[SuiteVerdict], coverage: Coverage | None) -> None:
    from engine.ruletest.reports import coverage as coverage_report
    from engine.ruletest.reports import json_form

    found: dict[str, Any] = {"files": json_form.report(verdicts)}
    if coverage is not None:
        found["coverage"] = coverage_report.report(coverage)
    print(json.dumps(found, ensure_ascii=False, indent=2))


def _print_coverage(coverage: Coverage, stream: TextIO) -> None:
    from engine.ruletest.reports.coverage import render

    print(render(coverage), file=stream, flush=True)
