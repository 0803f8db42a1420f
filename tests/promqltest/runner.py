"""Runs scripts: every case as written, then in every mode that can express it."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.promql.engine import Options
from engine.promql.errors import NEEDS_HISTOGRAMS, NeedsNativeHistograms
from rules.promql.parser import parse
from rules.source import ProblemsError, Source

from .comparison import Answer, MismatchError, check_answer, check_error
from .data import Data
from .modes import MODES, LeftOut, Question, ask, axis_of
from .notation import NativeHistogram
from .script import Clear, Evaluation, Load, parse_script

if TYPE_CHECKING:
    from collections.abc import Collection

# As Prometheus' own tests are set: a subquery's default step is a minute.
SETTINGS = Options(default_step_ms=60_000, start_timestamps=True)


@dataclass(frozen=True)
class Failure:
    """One evaluation that went wrong."""

    line: int
    expr: str
    expected: str
    got: str


@dataclass
class Tally:
    """Counts of one file. `modes`: how many cases each mode evaluated; `left_out`: and did not."""

    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    unsupported: list[Failure] = field(default_factory=list)
    modes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)


def run_script(
    text: str, options: Options = SETTINGS, modes: Collection[str] = tuple(MODES)
) -> Tally:
    """Run all commands of a script. Raises ScriptError if it does not parse."""
    tally, data = Tally(), Data()
    try:
        for command in parse_script(text):
            match command:
                case Clear():
                    data.forget()
                    data = Data()
                case Load():
                    data.load(command)
                case Evaluation():
                    _run(command, data, options, modes, tally)
    finally:
        data.forget()
    return tally


def _run(
    case: Evaluation, data: Data, options: Options, modes: Collection[str], tally: Tally
) -> None:
    try:
        _check(case, data, options, modes, tally)
    except MismatchError as mismatch:
        failure = Failure(case.line, case.expr, mismatch.expected, mismatch.got)
        (tally.unsupported if _expects_histograms(case) else tally.failures).append(failure)
    except NeedsNativeHistograms as error:
        failure = Failure(case.line, case.expr, NEEDS_HISTOGRAMS, str(error))
        tally.unsupported.append(failure)
    except Exception as error:  # noqa: BLE001 - a fault must not keep the other cases from running
        frame = traceback.extract_tb(error.__traceback__)[-1]
        got = f"internal error: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        tally.failures.append(Failure(case.line, case.expr, "a result", got))
    else:
        tally.passed += 1


def _expects_histograms(case: Evaluation) -> bool:
    return any(isinstance(item, NativeHistogram) for row in case.series.values() for item in row)


def _check(
    case: Evaluation, data: Data, options: Options, modes: Collection[str], tally: Tally
) -> None:
    source = Source("<expression>", case.expr)
    try:
        tree = parse(source)
    except ProblemsError as error:
        check_error(case, error)
        return
    used = replace(options, source=source)
    data.memory.met.clear()
    outcome = ask(tree, axis_of(case), data.memory, used)
    if isinstance(outcome, NeedsNativeHistograms):
        raise outcome
    question = Question(case, source, tree, data, used, outcome, frozenset(data.memory.met))
    if isinstance(question.outcome, Answer):
        check_answer(case, question.outcome)
    else:
        check_error(case, question.outcome)
    for mode in modes:
        _in_mode(mode, question, tally)


def _in_mode(mode: str, question: Question, tally: Tally) -> None:
    try:
        MODES[mode](question)
    except LeftOut as reason:
        tally.left_out[mode, str(reason)] += 1
    except MismatchError as mismatch:
        raise MismatchError(mismatch.expected, f"{mismatch.got} ({mode} mode)") from None
    else:
        tally.modes[mode] += 1
