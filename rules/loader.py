"""Loads rule files: every problem of a file in one go, in file order, each at its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rules.decoding import UnreadableError, read_source
from rules.document import Mapping, Scalar, compose
from rules.fields import UNKNOWN_FIELD, Fields, Report
from rules.groups import GroupReader
from rules.model import RuleFile
from rules.slotted import dataclass
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rules.document import Document, Node
    from rules.model import Group

Names = Literal["utf8", "legacy"]

SUFFIXES = (".yaml", ".yml")
_FILE_FIELDS = ("groups",)
# https://prometheus-operator.dev: PrometheusRule. Only spec.groups says anything about rules.
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
_OBJECT_VERSION = "monitoring.coreos.com/v1"
# Other files of the field that people hand over by mistake, by a key that only they have.
_MISTAKEN = {
    "tests": "it is a unit-test file; 'stallwatch test' runs it",
    "receivers": "it is a configuration; give it to 'stallwatch run --config'",
    "scrape_configs": "it is a Prometheus configuration; its rule_files name the rule files",
    "alert": "rules stand in a group: 'groups: [{name: ..., rules: [...]}]'",
    "rules": "rules stand in a group: 'groups: [{name: ..., rules: [...]}]'",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of one file. `file` is None exactly when `problems` has an error."""

    file: RuleFile | None
    problems: tuple[Problem, ...]


def load_file(
    path: str | Path, names: Names = "utf8", *, ignore_unknown_fields: bool = False
) -> Loaded:
    """Load one rule file (or PrometheusRule object).

    `names`: which label and metric names are valid, `utf8` as in Prometheus 3 or `legacy`.
    Raises UnreadableError when the file cannot be opened.
    """
    try:
        source = read_source(path)
    except ProblemsError as error:
        return Loaded(None, error.problems)
    return load_source(source, names, ignore_unknown_fields=ignore_unknown_fields)


def load_source(
    source: Source, names: Names = "utf8", *, ignore_unknown_fields: bool = False
) -> Loaded:
    """Load rules from text."""
    document = compose(source)
    return load_document(source, document, names, ignore_unknown_fields=ignore_unknown_fields)


def load_document(
    source: Source,
    document: Document,
    names: Names = "utf8",
    *,
    ignore_unknown_fields: bool = False,
) -> Loaded:
    """Load rules from what `compose` made of `source`."""
    tolerated = frozenset({UNKNOWN_FIELD}) if ignore_unknown_fields else frozenset[str]()
    report = Report(source, tolerated=tolerated)
    report.problems.extend(document.problems)
    groups: tuple[Group, ...] = ()
    if document.root is not None:
        groups = _groups(report, document.root, names)
    elif not report.failed:
        # Zero rules, as in Prometheus; but hardly what was meant.
        hint = "a file without rules says so: 'groups: []'"
        report.add(Span(0, 1), "the file is empty", hint, code="empty", severity="warning")
    file = None if report.failed else RuleFile(source.name, groups, source)
    return Loaded(file, report.ordered())


def load_paths(
    paths: Iterable[str | Path],
    names: Names = "utf8",
    warn: Callable[[Problem], object] = lambda _: None,
) -> tuple[RuleFile, ...]:
    """Load every file that `paths` name: files, directories, globs. `warn` is told of warnings.

    Raises ProblemsError with the errors of all files together, UnreadableError for a path that
    names nothing.
    """
    loaded = [load_file(path, names) for path in find_files(paths)]
    errors = [p for one in loaded for p in one.problems if p.severity == "error"]
    if errors:
        raise ProblemsError(errors)
    for problem in (problem for one in loaded for problem in one.problems):
        warn(problem)
    return tuple(one.file for one in loaded if one.file is not None)


def find_files(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """The files behind files, directories (their *.yaml and *.yml) and globs, each once.

    Raises UnreadableError for one that names nothing.
    """
    found: dict[Path, None] = {}
    for path in paths:
        text = str(path)
        if not text:
            raise UnreadableError("a path is empty\n    hint: is a variable of the shell not set?")
        if Path(path).is_dir():
            matches: Sequence[Path] = sorted(_files_below(text))
        elif Path(path).exists():
            matches = [Path(path)]
        else:
            matches = _matching(text)
        if not matches:
            raise UnreadableError(f"{text}: no rule file (*.yaml, *.yml) there")
        found.update(dict.fromkeys(matches))
    return tuple(found)


def _matching(pattern: str) -> list[Path]:
    """The files behind a pattern; one without a wildcard is the path itself, there or not."""
    import glob

    if not glob.has_magic(pattern):
        return [Path(pattern)]
    return [Path(match) for match in sorted(set(_expanded(pattern)))]


def _expanded(pattern: str) -> Iterator[str]:
    """What a pattern matches, `**` being the folders below, each once however links lead to it."""
    import glob

    before, found, after = f"/{pattern}{'/*' if pattern.endswith('**') else ''}".partition("/**/")
    if not found:
        yield from glob.glob(pattern)  # noqa: PTH207 - an absolute pattern, too
        return
    while after.startswith("**/"):
        after = after[3:]
    seen: set[tuple[int, int]] = set()
    for root in [before] if before in {"", "/"} else glob.glob(before[1:]):  # noqa: PTH207 - likewise
        for place, folders, _ in os.walk(root or ".", followlinks=True):
            status = Path(place).stat()
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            within = str(Path(place, "_"))[:-1]
            yield from _expanded(glob.escape(within) + after)


def _files_below(folder: str) -> Iterator[Path]:
    """Rule files of a directory. Hidden ones are an editor's, or Kubernetes' own second copy."""
    for place, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(place, name)
            if not name.startswith(".") and file.suffix in SUFFIXES and file.is_file():
                yield file


def _refuse_folder(error: OSError) -> None:
    raise UnreadableError(f"{error.filename}: {error.strerror or error}") from error


def _groups(report: Report, root: Node, names: Names) -> tuple[Group, ...]:
    if isinstance(root, Mapping) and root.get("groups") is None:
        hint = next((_MISTAKEN[key] for key in _MISTAKEN if root.get(key)), "")
        if hint:
            span = root.entries[0].key.span
            report.add(span, "this is not a rule file", hint, code="no-groups")
            return ()
    known = len(report.problems)
    fields = _group_fields(report, root)
    if fields is None:
        return ()
    if fields.mapping.get("groups") is None:
        # A misspelt 'groups' is reported as what it is.
        if len(report.problems) == known:
            hint = "a rule file starts with 'groups:'"
            report.add(fields.head, "there is no 'groups' here", hint, code="no-groups")
        return ()
    extra = isinstance(root, Mapping) and root.get("groups") is None
    return GroupReader(report, legacy_names=names == "legacy", operator=extra).read(
        fields.items("groups")
    )


def _group_fields(report: Report, root: Node) -> Fields | None:
    """The mapping that holds `groups`: the file itself, or the spec of a PrometheusRule."""
    if not isinstance(root, Mapping) or not (root.get("kind") or root.get("apiVersion")):
        return Fields.of(report, root, "a rule file", _FILE_FIELDS)
    fields = Fields.of(report, root, "a PrometheusRule object", _OBJECT_FIELDS)
    if fields is None:
        return None
    for name, expected in (("apiVersion", _OBJECT_VERSION), ("kind", "PrometheusRule")):
        said = fields.text(name)
        if said is None or said.value != expected:
            span = fields.key(name) if said is None else said.span
            message = f"an object with rules has {name}: {expected}"
            if isinstance(said, Scalar):
                message += f", not '{said.value[:60]}'"
            report.add(span, message, code="object")
    spec = fields.entry("spec")
    if spec is None:
        report.add(fields.head, "there is no 'spec' here", code="object")
        return None
    return Fields.of(report, spec.value, "the spec of a PrometheusRule", _FILE_FIELDS)
