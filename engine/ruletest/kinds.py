"""Kinds of test files beside promtool's, found by entry point.

An entry point of the group `stallwatch.tests` has the name of the top-level field that marks its
files, and is a `Run`.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

from engine.ruletest.running import run_file
from rules.decoding import UnreadableError, read_source
from rules.document import Mapping, compose
from rules.source import ProblemsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from engine.ruletest.running import RunOptions
    from engine.ruletest.verdict import SuiteVerdict

GROUP = "stallwatch.tests"
PROMTOOLS = "tests"


class Run(Protocol):
    """Runs one file. What keeps it from running is in the verdict, not raised."""

    def __call__(self, path: str | Path, options: RunOptions) -> SuiteVerdict:
        """The verdict."""
        ...


def is_test(path: str | Path) -> bool:
    """Whether a file has the field of any kind of test."""
    return _kind(path, [PROMTOOLS, *(point.name for point in entry_points(group=GROUP))]) != ""


def runner_of(path: str | Path) -> Run:
    """Who runs a file; one that is of no kind is left to promtool's, which says what is wrong."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    kind = _kind(path, points)
    return cast("Run", points[kind].load()) if kind else run_file


def _kind(path: str | Path, names: Iterable[str]) -> str:
    """The first of these that is a field of the file; ""."""
    try:
        source = read_source(path)
    except (ProblemsError, UnreadableError):
        return ""
    # Nobody has to compose what cannot hold the name.
    likely = [name for name in names if name in source.text]
    root = compose(source).root if likely else None
    found = (name for name in likely if isinstance(root, Mapping) and root.get(name) is not None)
    return next(found, "")
