from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rules.promql.parser import parse
from rules.source import Problem, ProblemsError

if TYPE_CHECKING:
    from types import ModuleType

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def errors_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("errors_table", HERE / "errors_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def promtool() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((HERE / "cases" / "promtool.json").read_text("utf-8"))
    return kept


def problems_of(expression: str) -> tuple[Problem, ...]:
    with pytest.raises(ProblemsError) as caught:
        parse(expression)
    return caught.value.problems


def test_a_mistake_is_shown_at_its_place_with_what_was_expected_and_a_hint(mistake: Any) -> None:
    shown = []
    for problem in problems_of(mistake.expression):
        width = max(1, problem.span.end - problem.span.start)
        shown += [" " * problem.span.start + "^" * width, problem.message]
        shown += [f"hint: {problem.hint}"] if problem.hint else []
    assert "\n".join(shown) == mistake.shown


def test_every_mistake_has_a_hint(mistake: Any) -> None:
    assert all(problem.hint for problem in problems_of(mistake.expression))


def test_no_mistake_is_shown_later_than_promtool_shows_it(
    mistake: Any, promtool: dict[str, Any]
) -> None:
    answer = promtool["answers"].get(mistake.expression)
    if answer is not None:
        assert problems_of(mistake.expression)[0].span.start + 1 <= answer[0]


def test_the_committed_table_is_current(errors_table: ModuleType, promtool: dict[str, Any]) -> None:
    assert errors_table.TABLE.read_text("utf-8") == errors_table.render(promtool)


def test_promtool_still_says_what_the_table_says(
    errors_table: ModuleType, promtool: dict[str, Any]
) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    asked = errors_table.ask_promtool(list(promtool["answers"]))
    if asked["version"] != promtool["version"]:
        pytest.skip(f"another promtool: {asked['version']}")
    assert asked == promtool


def test_the_error_shows_the_line_a_caret_and_the_hint() -> None:
    with pytest.raises(ProblemsError) as caught:
        parse("sum(rate(x[5m])) by task_id")
    assert str(caught.value) == (
        '<expression>:1:21: unexpected "task_id", expected "(" after "by"\n'
        "    sum(rate(x[5m])) by task_id\n"
        "                        ^^^^^^^\n"
        "    hint: put the labels in parentheses: by (task_id)"
    )


def test_every_type_error_is_shown_in_one_go() -> None:
    found = problems_of("rate(x) + clamp_max(y) > time(1)")
    assert [problem.span.start for problem in found] == [5, 10, 25]


def test_an_error_on_a_later_line_has_its_line_and_column() -> None:
    (problem,) = problems_of("sum by (a) (\n  rate(x[5m]\n)\n")
    assert problem.place == "<expression>:1:12"
    (problem,) = problems_of("sum by (a) (\n  raet(x[5m])\n)\n")
    assert problem.place == "<expression>:2:3"


@pytest.mark.parametrize("text", ["", "  \n", "# only a comment"])
def test_an_empty_expression_is_refused(text: str) -> None:
    (problem,) = problems_of(text)
    assert problem.message == "empty expression"
    assert problem.hint


def test_one_mistake_repeated_is_not_shown_without_end() -> None:
    assert len(problems_of("raet(x) + " * 1_000 + "1")) == 20
    assert len(problems_of(" + ".join(["rate(x)"] * 200))) == 20


def test_of_two_errors_that_start_together_the_inner_one_is_shown() -> None:
    (problem,) = problems_of("rate(x[5m] > 5)")
    assert problem.span.end == 10
