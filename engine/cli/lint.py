"""What `stallwatch check --lint` adds: findings in files that load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine.cli.durations import read_interval
from rules.errors import StallwatchError
from rules.fields import did_you_mean
from rules.lint import CODES, Settings, lint, page, recorded_flows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from engine.dataset import Dataset
    from rules.model import RuleFile
    from rules.promql.ast import Matcher
    from rules.source import Problem


def settings_of(args: argparse.Namespace) -> Settings:
    """What the arguments ask for. Raises StallwatchError."""
    for code in args.ignore:
        if code not in CODES:
            raise StallwatchError(
                f"stallwatch: --ignore: there is no finding '{code}'\n"
                f"    hint: {did_you_mean(code, CODES)}"
            )
    settings = Settings(ignored=frozenset(args.ignore))
    if args.interval is not None:
        interval_ms = read_interval(args.interval)
        settings = replace(settings, interval_ms=interval_ms, sample_interval_ms=interval_ms)
    if args.data is not None:
        from engine.cli.data import open_noticed

        settings = replace(settings, data=RecordedSeries(open_noticed(args.data).with_derived()))
    return settings


def findings(files: Sequence[RuleFile], settings: Settings) -> dict[str, tuple[Problem, ...]]:
    """What lint finds, by file; each hint ends with the page that explains the finding."""
    recorded = recorded_flows(files)
    return {file.path: tuple(map(_with_page, lint(file, settings, recorded))) for file in files}


def _with_page(problem: Problem) -> Problem:
    about = f"{problem.code}: see {page(problem.code)}"
    return replace(problem, hint=f"{problem.hint}\n    {about}" if problem.hint else about)


@dataclass(frozen=True)
class RecordedSeries:
    """Implements `rules.lint.Data` on a dataset."""

    dataset: Dataset

    def matches(self, matchers: Sequence[Matcher]) -> bool:
        """Whether any series satisfies all matchers."""
        data = self.dataset
        return bool(data.select(matchers, data.start_ms, data.end_ms))

    def metric_names(self) -> Sequence[str]:
        """Every metric name there is."""
        return self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        data = self.dataset
        series = data.select([], data.start_ms, data.end_ms)
        return tuple(sorted({one.labels.name for one in series}))
