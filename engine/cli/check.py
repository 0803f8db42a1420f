"""`stallwatch check`: every problem of rule files and configurations, each at its place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rules.decoding import read_source
from rules.document import Mapping, compose
from rules.loader import find_files, load_source
from rules.portable import portability
from rules.source import ProblemsError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from rules.loader import Names
    from rules.source import Problem, Source

# Keys that only a stallwatch.yaml has at its top.
_CONFIGURATION_KEYS = frozenset({
    "listen", "state_dir", "flush_interval", "evaluation_interval", "rule_files", "receivers",
    "route", "retention", "queue", "probes", "external_labels", "cluster", "node",
})  # fmt: skip
_RULE_KEYS = frozenset({"groups", "apiVersion", "kind", "spec"})


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one file. `kind`: rules or configuration."""

    path: str
    kind: str
    problems: tuple[Problem, ...]
    groups: int = 0
    rules: int = 0

    @property
    def ok(self) -> bool:
        """Whether it would load."""
        return all(problem.severity != "error" for problem in self.problems)

    def summary(self) -> str:
        """One line, as promtool words it."""
        if not self.ok:
            count = sum(problem.severity == "error" for problem in self.problems)
            return f"{self.path}: FAILED: {count} {'error' if count == 1 else 'errors'}"
        if self.kind == "configuration":
            return f"{self.path}: SUCCESS: a valid configuration"
        rules = f"{self.rules} {'rule' if self.rules == 1 else 'rules'}"
        groups = f"{self.groups} {'group' if self.groups == 1 else 'groups'}"
        return f"{self.path}: SUCCESS: {rules} in {groups}"

    def to_json(self) -> dict[str, Any]:
        """The same, for machines."""
        return {
            "file": self.path,
            "kind": self.kind,
            "ok": self.ok,
            "groups": self.groups,
            "rules": self.rules,
            "problems": [_problem_json(problem) for problem in self.problems],
        }


class CheckCommand:
    """Check rule files and configurations."""

    summary = "check rule files and configurations"
    example = "stallwatch check rules/packs/*.yaml"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the paths and switches."""
        parser.add_argument("paths", nargs="+", metavar="PATH", help="file, directory or glob")
        parser.add_argument(
            "--portable",
            action="store_true",
            help="also name what a Prometheus without feature flags would not load",
        )
        parser.add_argument(
            "--names",
            choices=("utf8", "legacy"),
            default="utf8",
            help="valid label and metric names: any UTF-8 (Prometheus 3) or legacy ones",
        )
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print every problem; exit 1 when a file would not load."""
        files = find_files(args.paths)
        checked = [check_file(path, args.names, portable=args.portable) for path in files]
        if args.format == "json":
            print(json.dumps([one.to_json() for one in checked], ensure_ascii=False, indent=2))
        else:
            _print(checked)
        return 0 if all(one.ok for one in checked) else 1


def check_file(path: Path, names: Names = "utf8", *, portable: bool = False) -> Checked:
    """Check one file, whichever kind it is. Raises UnreadableError when it cannot be opened."""
    try:
        source = read_source(path)
    except ProblemsError as error:
        return Checked(str(path), "rules", error.problems)
    if _is_configuration(source):
        # pydantic is slow to import, and most checks are of rules.
        from engine.config.loader import load_source as load_configuration

        _, problems = load_configuration(source, path.resolve().parent)
        return Checked(str(path), "configuration", problems)
    loaded = load_source(source, names)
    problems = loaded.problems
    if loaded.file is None:
        return Checked(str(path), "rules", problems)
    groups = loaded.file.groups
    if portable:
        problems = (*problems, *portability(loaded.file))
    return Checked(
        str(path), "rules", problems, len(groups), sum(len(group.rules) for group in groups)
    )


def _is_configuration(source: Source) -> bool:
    root = compose(source).root
    if not isinstance(root, Mapping):
        return False
    keys = {entry.key.value for entry in root.entries}
    return bool(keys & _CONFIGURATION_KEYS) and not keys & _RULE_KEYS


def _print(checked: Sequence[Checked]) -> None:
    for one in checked:
        for problem in one.problems:
            print(problem.render())
        print(one.summary())


def _problem_json(problem: Problem) -> dict[str, Any]:
    line, column = problem.source.position(problem.span.start)
    end_line, end_column = problem.source.position(max(problem.span.start, problem.span.end))
    return {
        "file": problem.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "severity": problem.severity,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }
