"""`stallwatch check`: every problem of rule files and configurations, each at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rules.decoding import read_source
from rules.document import Mapping, Scalar, Sequence, compose
from rules.errors import StallwatchError
from rules.fields import nearest
from rules.loader import find_files, load_document
from rules.slotted import dataclass, replace
from rules.source import ProblemsError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from rules.document import Node
    from rules.lint import Settings
    from rules.loader import Names
    from rules.model import RuleFile
    from rules.source import Problem, Span

# The fields of engine.config.model.Config, which is slow to import; a test holds the two equal.
CONFIGURATION_KEYS = frozenset({
    "listen", "state_dir", "flush_interval", "evaluation_interval", "rule_files", "receivers",
    "route", "retention", "queue", "probes", "external_labels", "cluster", "node", "lookback",
    "restart_grace", "external_url", "inhibit_rules", "time_intervals", "templates",
    "alertmanager_config", "tier_inhibition", "compat", "alert_relabel_configs", "baselines",
    "flapping",
})  # fmt: skip
# Sections of Alertmanager's file; all others are ours. And kinds of receivers that are not ours.
ALERTMANAGER_KEYS = frozenset({
    "global", "route", "inhibit_rules", "receivers", "templates", "time_intervals",
    "mute_time_intervals", "tracing",
})  # fmt: skip
ALERTMANAGERS = frozenset({
    "discord_configs", "incidentio_configs", "jira_configs", "jsm_configs", "mattermost_configs",
    "msteams_configs", "msteamsv2_configs", "opsgenie_configs", "pagerduty_configs",
    "pushover_configs", "rocketchat_configs", "signl4_configs", "sns_configs", "telegram_configs",
    "victorops_configs", "webex_configs", "wechat_configs",
})  # fmt: skip
_OURS = CONFIGURATION_KEYS - ALERTMANAGER_KEYS
_RULE_KEYS = frozenset({"groups", "apiVersion", "kind", "spec"})
# Rules without a group around them, and other files without secrets.
_RULE_LIKE = _RULE_KEYS | {"alert", "record", "expr", "rules", "tests"}


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one file. `kind`: rules, configuration or alertmanager."""

    path: str
    kind: str
    problems: tuple[Problem, ...]
    groups: int = 0
    rules: int = 0
    file: RuleFile | None = None
    findings: tuple[Problem, ...] = ()

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
        if self.kind == "alertmanager":
            return f"{self.path}: SUCCESS: a valid alertmanager.yml"
        rules = f"{self.rules} {'rule' if self.rules == 1 else 'rules'}"
        groups = f"{self.groups} {'group' if self.groups == 1 else 'groups'}"
        summary = f"{self.path}: SUCCESS: {rules} in {groups}"
        if self.findings:
            count = len(self.findings)
            summary += f", {count} {'finding' if count == 1 else 'findings'}"
        return summary

    def to_json(self) -> dict[str, Any]:
        """The same, for machines."""
        return {
            "file": self.path,
            "kind": self.kind,
            "ok": self.ok,
            "groups": self.groups,
            "rules": self.rules,
            "problems": [_problem_json(problem) for problem in (*self.problems, *self.findings)],
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
        _add_lint(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print every problem; exit 1 when a file would not load, or lint found something."""
        settings = _lint_settings(args)
        files = find_files(args.paths)
        checked = [check_file(path, args.names, portable=args.portable) for path in files]
        if settings is not None:
            from engine.cli.lint import findings

            found = findings([one.file for one in checked if one.file is not None], settings)
            checked = [replace(one, findings=found.get(one.path, ())) for one in checked]
        if args.format == "json":
            import json

            print(json.dumps([one.to_json() for one in checked], ensure_ascii=False, indent=2))
        else:
            _print(checked)
        return 0 if all(one.ok and not one.findings for one in checked) else 1


def _add_lint(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("lint")
    group.add_argument(
        "--lint",
        action="store_true",
        help="also name rules that load and cannot do what they are meant to; exit 1 if there are",
    )
    group.add_argument(
        "--data", metavar="PATH", help="recorded data: also name selectors that match nothing there"
    )
    group.add_argument(
        "--interval",
        metavar="DURATION",
        help="evaluation interval of groups that name none, and spacing of samples; default: 10s",
    )
    group.add_argument(
        "--ignore", metavar="CODE", action="append", default=[], help="leave out a kind of finding"
    )


def _lint_settings(args: argparse.Namespace) -> Settings | None:
    if args.lint:
        # Only those who ask for it wait for its imports.
        from engine.cli.lint import settings_of

        return settings_of(args)
    if args.data is not None or args.interval is not None or args.ignore:
        raise StallwatchError(
            "stallwatch: --data, --interval and --ignore belong to --lint\n    hint: add --lint"
        )
    return None


def check_file(path: Path, names: Names = "utf8", *, portable: bool = False) -> Checked:
    """Check one file, whichever kind it is. Raises UnreadableError when it cannot be opened."""
    try:
        source = read_source(path)
    except ProblemsError as error:
        return Checked(str(path), "rules", error.problems)
    document = compose(source)
    root = document.root
    if _is_alertmanagers(root, path):
        from engine.config.loader import load_alertmanager_source

        _, problems = load_alertmanager_source(source, path.resolve().parent)
        return Checked(str(path), "alertmanager", problems)
    if _is_configuration(root, path):
        # pydantic is slow to import, and most checks are of rules.
        from engine.config.loader import load_source as load_configuration

        _, problems = load_configuration(source, path.resolve().parent)
        return Checked(str(path), "configuration", problems)
    loaded = load_document(source, document, names)
    problems = loaded.problems
    if problems and not _holds(root, _RULE_LIKE):
        # It may be a configuration that is too broken to be known as one, secrets and all.
        from engine.config.masking import masked

        problems = masked(problems, _values(root))
    if loaded.file is None:
        return Checked(str(path), "rules", problems)
    groups = loaded.file.groups
    if portable:
        from rules.portable import portability

        problems = (*problems, *portability(loaded.file))
    rules = sum(len(group.rules) for group in groups)
    return Checked(str(path), "rules", problems, len(groups), rules, loaded.file)


def _is_alertmanagers(root: Node | None, path: Path) -> bool:
    """Whether it is Alertmanager's own file: by its name, or by receivers that only that has."""
    if "alertmanager" in path.stem:
        return not _holds(root, _RULE_KEYS | _OURS)
    return (
        path.stem != "stallwatch"
        and _holds(root, frozenset({"route"}))
        and not _holds(root, _RULE_KEYS | _OURS)
        and any(name in ALERTMANAGERS for name in _integrations(root))
    )


def _integrations(root: Node | None) -> Iterator[str]:
    """`webhook_configs` and the like, of all receivers."""
    receivers = root.get("receivers") if isinstance(root, Mapping) else None
    if receivers is None or not isinstance(receivers.value, Sequence):
        return
    for receiver in receivers.value.items:
        if isinstance(receiver, Mapping):
            yield from (entry.key.value for entry in receiver.entries)


def _is_configuration(root: Node | None, path: Path) -> bool:
    if not isinstance(root, Mapping) or _holds(root, _RULE_KEYS):
        return False
    if path.stem == "stallwatch":
        return True
    known = CONFIGURATION_KEYS | _RULE_KEYS
    return any(nearest(entry.key.value, known) in CONFIGURATION_KEYS for entry in root.entries)


def _holds(root: Node | None, keys: frozenset[str]) -> bool:
    return isinstance(root, Mapping) and any(root.get(key) is not None for key in keys)


def _values(root: Node | None) -> tuple[Span, ...]:
    if isinstance(root, Mapping):
        return tuple(entry.value.span for entry in root.entries)
    return (root.span,) if isinstance(root, Scalar) else ()


def _print(checked: list[Checked]) -> None:
    for one in checked:
        for problem in (*one.problems, *one.findings):
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
