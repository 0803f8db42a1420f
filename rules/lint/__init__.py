"""Lint: rules that load and still cannot do what they are meant to do.

A finding is a `Problem` of severity "warning" with the check's code. What it says holds for all
data; where that cannot be known, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.catalogue import CHECKS, CODES, page
from rules.lint.subject import Data, Settings, subjects
from rules.model import RecordingRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rules.model import RuleFile
    from rules.source import Problem

__all__ = ["CODES", "Data", "Settings", "lint", "page", "recorded_names"]

DEFAULT = Settings()


def lint(
    file: RuleFile, settings: Settings = DEFAULT, recorded: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """All findings of a file, in file order. `recorded`: what rules of other files record."""
    names = frozenset(recorded) | recorded_names([file])
    found: dict[Problem, None] = {}
    for subject in subjects(file, settings, names):
        for check in CHECKS:
            if check.CODE not in subject.ignored:
                found.update(dict.fromkeys(check.check(subject)))
    return tuple(sorted(found, key=lambda problem: problem.span))


def recorded_names(files: Sequence[RuleFile]) -> frozenset[str]:
    """The metric names that the files' recording rules write."""
    rules = (rule for file in files for group in file.groups for rule in group.rules)
    return frozenset(rule.name for rule in rules if isinstance(rule, RecordingRule))
