"""`python -m tests.promqltest DIR [--json]`: how many evaluations of each script pass."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .notation import ScriptError
from .runner import Failure, Tally, run_script


def main() -> int:
    """Run every `*.test` under a folder; 1 if any evaluation failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.promqltest", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of *.test files, or one file")
    parser.add_argument("--json", action="store_true", help="print JSON with every failure")
    parser.add_argument("--unsupported", action="store_true", help="list the unsupported ones too")
    args = parser.parse_args()
    folder: Path = args.folder
    paths = sorted(folder.glob("*.test")) if folder.is_dir() else [folder]
    tallies: dict[str, Tally] = {}
    for path in paths:
        tallies[path.name] = _run(path)
    if args.json:
        print(json.dumps(_report(tallies), indent=1))
    else:
        _print(tallies, unsupported=args.unsupported)
    return 1 if any(tally.failures for tally in tallies.values()) else 0


def _run(path: Path) -> Tally:
    try:
        return run_script(path.read_text(encoding="utf-8"))
    except ScriptError as error:
        broken = Failure(0, "", "a script that parses", str(error))
        return Tally(failures=[broken])


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
        shown = tally.failures + (tally.unsupported if unsupported else [])
        for one in shown:
            print(f"{name}:{one.line}: {one.expr}\n    expected {one.expected}\n    got {one.got}")
    for name, counts in [
        *((name, _counts([tally])) for name, tally in tallies.items()),
        ("total", _counts(list(tallies.values()))),
    ]:
        line = "  ".join(f"{kind} {count}" for kind, count in counts.items())
        print(f"{name:32} {line}")


if __name__ == "__main__":
    sys.exit(main())
