"""`python -m tests.promqltest DIR [--json]`: how many evaluations of each script pass."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from .modes import MODES
from .notation import ScriptError
from .runner import Failure, Tally, run_script


def main() -> int:
    """Run every `*.test` under a folder; 1 if any evaluation failed, 2 if there is nothing."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.promqltest",
        description="Run scripts in Prometheus' own test language.",
        epilog="example: python -m tests.promqltest tests/promqltest/cases --modes",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder of *.test, or one file")
    parser.add_argument("--json", action="store_true", help="print JSON with every failure")
    parser.add_argument("--unsupported", action="store_true", help="list the unsupported ones too")
    parser.add_argument("--modes", action="store_true", help="count what each mode left out, why")
    args = parser.parse_args()
    paths = _scripts(args.folder)
    if isinstance(paths, str):
        print(paths, file=sys.stderr)
        return 2
    tallies = {name: _run(path) for name, path in paths.items()}
    if args.json:
        print(json.dumps(_report(tallies), indent=1))
    else:
        _print(tallies, unsupported=args.unsupported)
        if args.modes:
            _print_modes(list(tallies.values()))
    return 1 if any(tally.failures for tally in tallies.values()) else 0


def _scripts(folder: Path) -> dict[str, Path] | str:
    """The scripts by name, or why there are none."""
    try:
        if not folder.exists():
            return f"{folder}: no such folder"
        if not folder.is_dir():
            return {folder.name: folder}
        found = sorted(folder.rglob("*.test"))
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not found:
        return f"{folder}: no *.test files in it"
    return {path.relative_to(folder).as_posix(): path for path in found}


def _run(path: Path) -> Tally:
    try:
        return run_script(path.read_text(encoding="utf-8"))
    except ScriptError as error:
        line, reason = error.line, error.reason
    except UnicodeDecodeError:
        line, reason = 0, "the file is not UTF-8 text"
    except OSError as error:
        line, reason = 0, f"cannot be read: {error.strerror}"
    return Tally(failures=[Failure(line, "", "a script that can be run", reason)])


def _counts(tallies: list[Tally]) -> dict[str, int]:
    return {
        "passed": sum(tally.passed for tally in tallies),
        "failed": sum(len(tally.failures) for tally in tallies),
        "unsupported": sum(len(tally.unsupported) for tally in tallies),
    }


def _report(tallies: dict[str, Tally]) -> dict[str, object]:
    files = {
        name: {**_counts([tally]), "failures": [asdict(one) for one in tally.failures]}
        for name, tally in tallies.items()
    }
    return {"total": _counts(list(tallies.values())), "files": files}


def _print(tallies: dict[str, Tally], *, unsupported: bool) -> None:
    for name, tally in tallies.items():
        for one in tally.failures + (tally.unsupported if unsupported else []):
            if one.expr:
                print(f"{name}:{one.line}: {one.expr}")
                print(f"    expected {one.expected}\n    got {one.got}")
            else:
                print(f"{name}:{one.line}: {one.got}" if one.line else f"{name}: {one.got}")
    for name, counts in [
        *((name, _counts([tally])) for name, tally in tallies.items()),
        ("total", _counts(list(tallies.values()))),
    ]:
        line = "  ".join(f"{kind} {count}" for kind, count in counts.items())
        print(f"{name:32} {line}")


def _print_modes(tallies: list[Tally]) -> None:
    done: Counter[str] = sum((tally.modes for tally in tallies), Counter())
    left_out: Counter[tuple[str, str]] = sum((tally.left_out for tally in tallies), Counter())
    for mode in MODES:
        print(f"{mode:32} evaluated {done[mode]}")
        for (own, reason), count in left_out.most_common():
            if own == mode:
                print(f"{'':32} left out {count}: {reason}")


if __name__ == "__main__":
    # A reader (head, less) that has had enough ends this in silence.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
