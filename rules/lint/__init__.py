"""Lint: rules that load and still cannot do what they are meant to do.

A finding is a `Problem` of severity "warning" with the check's code. What it says holds for all
data; where that cannot be known, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.lint.catalogue import CHECKS, CODES, page
from rules.lint.subject import Data, Settings, recorded_flows, subjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rules.lint.label_flow import Flow
    from rules.model import RuleFile
    from rules.source import Problem

__all__ = ["CODES", "Data", "Settings", "lint", "page", "recorded_flows"]

DEFAULT = Settings()


def lint(
    file: RuleFile, settings: Settings = DEFAULT, recorded: Mapping[str, Flow] | None = None
) -> tuple[Problem, ...]:
    """All findings of a file, in file order. `recorded`: see `recorded_flows`, of all files."""
    found: dict[Problem, None] = {}
    flows = recorded_flows([file]) if recorded is None else recorded
    for subject in subjects(file, settings, flows):
        for check in CHECKS:
            if check.CODE not in subject.ignored:
                found.update(dict.fromkeys(check.check(subject)))
    return tuple(sorted(found, key=lambda problem: problem.span))
