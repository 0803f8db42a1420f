"""Writes docs/promql-errors.md: common mistakes, with our message beside promtool's.

    python tests/rules/promql/errors_table.py [--ask]

Our side comes from the parser. promtool's side is kept in cases/promtool.json; `--ask` asks the
installed promtool again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rules.promql.parser import parse
from rules.source import Problem, ProblemsError

ROOT = Path(__file__).resolve().parents[3]
CASES = Path(__file__).parent / "cases"
ANSWERS = CASES / "promtool.json"
TABLE = ROOT / "docs" / "promql-errors.md"

_INTRODUCTION = """\
# What a wrong expression is told

Common mistakes in PromQL, with what stallwatch says and what `promtool check rules` of Prometheus
{version} (Debian 12) says. `line:column` is where the message points. stallwatch never points
later than promtool, names what it expected, and adds a hint.

Some of what promtool {version} refuses is PromQL today and accepted: `x[5]` (a number is seconds),
`sum by ("my label") (x)`, `{{"my.metric"}}`, `1_000`. `sum(x) by (a,)`, with its trailing comma, is
accepted by both.

This page is made by `tests/rules/promql/errors_table.py`.
"""


# Of Prometheus 3 only: what an older promtool says of it helps nobody.
_NEW = "Experimental parts"


def sections() -> dict[str, list[str]]:
    """The expressions of cases/mistakes.txt by section."""
    found: dict[str, list[str]] = {}
    for block in (CASES / "mistakes.txt").read_text(encoding="utf-8").strip().split("\n\n"):
        if block.startswith("## "):
            found[block.removeprefix("## ")] = expressions = []
        else:
            expressions.append(block.partition("\n")[0])
    return found


def problems(expression: str) -> tuple[Problem, ...]:
    """What the parser says."""
    try:
        parse(expression)
    except ProblemsError as error:
        return error.problems
    return ()


def ask_promtool(expressions: list[str]) -> dict[str, Any]:
    """What promtool says of each expression: `[column, message]`, None if it accepts it."""
    rules = "".join(
        f"  - record: r{i}\n    expr: {json.dumps(expression)}\n"
        for i, expression in enumerate(expressions, 1)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.yml"
        path.write_text(f"groups:\n- name: g\n  rules:\n{rules}", encoding="utf-8")
        command = ["promtool", "check", "rules", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    version = subprocess.run(["promtool", "--version"], capture_output=True, text=True, check=True)
    answers: dict[str, Any] = dict.fromkeys(expressions)
    pattern = r'rule (\d+), "r\d+": could not parse expression: 1:(\d+): parse error: (.*)'
    for number, column, message in re.findall(pattern, done.stdout + done.stderr):
        answers[expressions[int(number) - 1]] = [int(column), message]
    found = re.search(r"version (\S+?)[+ ]", version.stdout + version.stderr)
    return {"version": found[1] if found else "", "answers": answers}


def render(kept: dict[str, Any]) -> str:
    """The page."""
    shown = [_INTRODUCTION.format(version=kept["version"])]
    for section, expressions in sections().items():
        shown.append(f"\n## {section}\n")
        if section == _NEW:
            shown.append("| expression | stallwatch |\n|---|---|")
            shown.extend(_row(expression) for expression in expressions)
            continue
        shown.append(f"| expression | stallwatch | promtool {kept['version']} |\n|---|---|---|")
        shown.extend(
            f"{_row(expression)} {_theirs(kept['answers'][expression])} |"
            for expression in expressions
        )
    return "\n".join(shown) + "\n"


def _row(expression: str) -> str:
    ours = []
    for problem in problems(expression):
        line, column = problem.source.position(problem.span.start)
        hint = f"<br>*hint:* {_cell(problem.hint)}" if problem.hint else ""
        ours.append(f"{line}:{column} {_cell(problem.message)}{hint}")
    return f"| `{expression.replace('|', chr(92) + '|')}` | {'<br>'.join(ours)} |"


def _theirs(answer: list[Any] | None) -> str:
    return "accepts it" if answer is None else f"1:{answer[0]} {_cell(answer[1])}"


def _cell(text: str) -> str:
    # Every mark that Markdown or a table would read.
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text)


def main() -> None:
    """Write the page."""
    if "--ask" in sys.argv:
        asked = [listed for section, listed in sections().items() if section != _NEW]
        expressions = [expression for listed in asked for expression in listed]
        text = json.dumps(ask_promtool(expressions), indent=1, ensure_ascii=False)
        ANSWERS.write_text(text + "\n", encoding="utf-8")
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(render(json.loads(ANSWERS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
