"""Documentation that a machine can hold true. Run by `make check`; `--write` mends what it can.

- every relative link in a Markdown file leads somewhere;
- every YAML block that is a rule file loads;
- every `stallwatch ...` shown is a command with options that it has;
- docs/commands.md is what `--help` says;
- docs/metrics.md names every metric of the agent's own;
- docs/statistics.md tells of every function that Prometheus does not have, by its docstring;
- docs/lint/ has a page for every finding of `check --lint`, which is its check's docstring.
"""

from __future__ import annotations

import argparse
import inspect
import re
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"\bstallwatch ([a-z][a-z-]*)\b([^`\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
CODE = re.compile(r"```(?:sh|text)?\n.*?```|`[^`\n]+`", re.DOTALL)
# What pages may name although no --help lists it: an option for developers.
HIDDEN = frozenset({"--save-recording"})
COMMANDS = ROOT / "docs" / "commands.md"
METRICS = ROOT / "docs" / "metrics.md"
LINT = ROOT / "docs" / "lint"
STATISTICS = ROOT / "docs" / "statistics.md"


LINT_HEAD = """# Findings of `stallwatch check --lint`

Rules that load and still cannot do what they are meant to do. A finding holds for all data; where
that cannot be known, nothing is said. Exit status 1 if there is any. To leave a kind out:
`--ignore CODE`, or on one alert the annotation `stallwatch_lint_ignore: CODE, CODE`, which
Prometheus reads past. Made from the checks by `scripts/check_docs.py --write`.
"""


def markdown_files() -> list[Path]:
    """Every Markdown file that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]


def broken_links(path: Path) -> list[str]:
    """Relative links of one file that lead nowhere."""
    found = []
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        if not (path.parent / target).exists():
            found.append(f"{path.relative_to(ROOT)}: the link {target} leads nowhere")
    return found


def broken_rules(path: Path) -> list[str]:
    """Rule files shown in one file that do not load."""
    from rules.loader import load_file

    found = []
    for block in YAML_BLOCK.findall(path.read_text(encoding="utf-8")):
        if not block.startswith("groups:"):
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
            file.write(block)
            file.flush()
            problems = load_file(file.name).problems
        found += [f"{path.relative_to(ROOT)}: a rule shown there: {p.render()}" for p in problems]
    return found


def wrong_commands(path: Path, reference: str) -> list[str]:
    """Commands shown in one file that do not exist, or do not have an option they are given."""
    sections = {part.split("\n", 1)[0]: part for part in reference.split("## stallwatch ")[1:]}
    found = []
    for code in CODE.findall(path.read_text(encoding="utf-8")):
        for name, rest in SHOWN.findall(code):
            where = f"{path.relative_to(ROOT)}: `stallwatch {name}`"
            if name not in sections:
                found.append(f"{where} is no command")
                continue
            known = {*OPTION.findall(sections[name]), *HIDDEN}
            found += [f"{where} has no {one}" for one in OPTION.findall(rest) if one not in known]
    return found


def command_reference() -> str:
    """docs/commands.md as `--help` tells it."""
    parts = [
        "# Commands\n",
        "Made from `--help` by `scripts/check_docs.py --write`. Exit status: 0 done, 1 it ran and",
        "found something, 2 it could not run.\n",
    ]
    for name in sorted(point.name for point in entry_points(group="stallwatch.commands")):
        shown = subprocess.run(
            [sys.executable, "-m", "engine.cli.main", name, "--help"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
            env={"COLUMNS": "96", "PATH": "", "NO_COLOR": "1", "PYTHON_COLORS": "0"},
        )
        text = "\n".join(line.rstrip() for line in shown.stdout.rstrip().splitlines())
        parts.append(f"## stallwatch {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def metric_table() -> str:
    """The agent's own metrics as a Markdown table."""
    from engine.telemetry import METRICS as OWN

    rows = [f"| `{name}` | {about.kind} | {about.text} |" for name, about in sorted(OWN.items())]
    return "\n".join(["| metric | type | meaning |", "|---|---|---|", *rows])


def lint_pages() -> dict[Path, str]:
    """The pages of docs/lint/ as the checks' docstrings tell them, and their index."""
    from rules.lint.catalogue import CHECKS

    pages, rows = {}, []
    for check in CHECKS:
        title, _, rest = (check.__doc__ or "").partition("\n")
        pages[LINT / f"{check.CODE}.md"] = f"# {check.CODE}\n\n{title}\n{rest}"
        rows.append(f"| [{check.CODE}]({check.CODE}.md) | {title} |")
    table = "\n".join(["| code | what is found |", "|---|---|", *rows])
    pages[LINT / "README.md"] = f"{LINT_HEAD}\n{table}\n"
    return pages


def statistics_page() -> str:
    """docs/statistics.md: its own introduction, and the functions as their docstrings tell them."""
    from engine.promql.functions.table import STATISTICS as FUNCTIONS
    from engine.promql.peers import PEERS

    table: dict[str, Callable[..., object]] = {**FUNCTIONS, **PEERS}
    head, mark, _ = STATISTICS.read_text(encoding="utf-8").partition("<!-- functions -->\n")
    sections = [f"### {name}\n\n{told_of(name, one.__doc__)}\n" for name, one in table.items()]
    return "\n".join([head + mark, *sections])


def told_of(name: str, docstring: str | None) -> str:
    """A function's docstring as a page shows it. Raises ValueError if it leaves a part out."""
    text = inspect.cleandoc(docstring or "")
    for part in ("Formula", "Source", "Warm-up", "Cost", "Absent"):
        if f"**{part}.**" not in text:
            raise ValueError(f"the docstring of {name} has no {part}")
    return text


def main() -> int:
    """Check, or with --write mend; exit 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    found = []
    reference = command_reference()
    if write:
        COMMANDS.write_text(reference, encoding="utf-8")
        text = METRICS.read_text(encoding="utf-8")
        head = text.split("<!-- own metrics -->")[0]
        LINT.mkdir(exist_ok=True)
        for path, page in lint_pages().items():
            path.write_text(page, encoding="utf-8")
        STATISTICS.write_text(statistics_page(), encoding="utf-8")
        METRICS.write_text(f"{head}<!-- own metrics -->\n\n{metric_table()}\n", encoding="utf-8")
    if not COMMANDS.exists() or COMMANDS.read_text(encoding="utf-8") != reference:
        found.append("docs/commands.md is not what --help says: scripts/check_docs.py --write")
    if not METRICS.exists() or metric_table() not in METRICS.read_text(encoding="utf-8"):
        found.append("docs/metrics.md lacks a metric: scripts/check_docs.py --write")
    if STATISTICS.read_text(encoding="utf-8") != statistics_page():
        found.append("docs/statistics.md is not what docstrings say: scripts/check_docs.py --write")
    for path, page in lint_pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            where = path.relative_to(ROOT)
            found.append(f"{where} is not what the check says: scripts/check_docs.py --write")
    for path in markdown_files():
        found += broken_links(path) + broken_rules(path) + wrong_commands(path, reference)
    for line in found:
        print(line, file=sys.stderr)
    print(f"docs: {len(found)} problems" if found else "docs: as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
