"""From what the booted machines reported to one table: probe by kernel."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BEGIN, END = "<!-- kernels: written by make test-kernels -->", "<!-- end of kernels -->"
NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Outcome:
    """One test on one kernel. `words`: why it was skipped or failed."""

    probe: str
    test: str
    state: Literal["passed", "skipped", "failed", "not finished"]
    words: str = ""


def read_report(text: str) -> tuple[Outcome, ...]:
    """Outcomes from the lines of reporting.py: a test's last word counts, but a failure stays."""
    found: dict[str, Outcome] = {}
    for line in text.splitlines():
        said = json.loads(line)
        path, _, test = said["test"].partition("::")
        before = found.get(said["test"])
        if before is None or before.state != "failed":
            state, words = said["state"], said["words"]
            found[said["test"]] = Outcome(probe_of(path), test or path, state, words)
    return tuple(found.values())


def probe_of(path: str) -> str:
    """Whose test a file is."""
    found = re.search(r"tests/(?:probes/(\w+)/|e2e/test_(\w+)\.py)", path)
    return next(filter(None, found.groups())) if found else "?"


@dataclass(frozen=True)
class Column:
    """What one kernel said: by probe a cell, and a line for each test that did not pass."""

    kernel: str
    cells: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def series(self) -> tuple[int, ...]:
        """5.10 of 5.10.0-46-amd64."""
        return tuple(int(each) for each in self.kernel.split(".")[:2])


def column(kernel: str, outcomes: Sequence[Outcome]) -> Column:
    """What the outcomes of one kernel come to."""
    made = Column(kernel)
    for probe in {each.probe for each in outcomes}:
        own = [each for each in outcomes if each.probe == probe]
        made.cells[probe] = _cell(own)
        made.notes[probe] = [_note(each) for each in own if each.state != "passed"]
    return made


def _cell(outcomes: Sequence[Outcome]) -> str:
    passed = sum(each.state == "passed" for each in outcomes)
    if passed == len(outcomes):
        return f"yes ({passed} test{'s' * (passed > 1)})"
    return f"{passed} of {len(outcomes)}"


def _note(outcome: Outcome) -> str:
    sentence = outcome.test.removeprefix("test_").replace("_", " ")
    return ": ".join(filter(None, (sentence, outcome.state, outcome.words)))


def merged(old: Iterable[Column], new: Iterable[Column], *, whole: bool) -> list[Column]:
    """Columns with those of the new kernels in their series' place.

    A `whole` column replaces the old one; one of some probes only keeps the rest of the very same
    kernel's column. What an older kernel of the series did is not kept beside it.
    """
    by_series = {each.series: each for each in old}
    for each in new:
        before = by_series.get(each.series)
        if before is None or whole or before.kernel != each.kernel:
            before = Column(each.kernel)
        cells, notes = {**before.cells, **each.cells}, {**before.notes, **each.notes}
        by_series[each.series] = Column(each.kernel, cells, notes)
    return [by_series[series] for series in sorted(by_series)]


def table(columns: Sequence[Column]) -> str:
    """Markdown: a row for each probe, a column for each kernel, and below what was not so."""
    probes = sorted({probe for each in columns for probe in each.cells})
    lines = ["| probe | " + " | ".join(each.kernel for each in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for probe in probes:
        cells = [each.cells.get(probe, NOT_TRIED) for each in columns]
        lines.append(f"| `{probe}` | " + " | ".join(cells) + " |")
    notes = [
        f"- {each.kernel}, `{probe}`: {note}"
        for each in columns
        for probe in probes
        for note in each.notes.get(probe, ())
    ]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def read_columns(document: str) -> list[Column]:
    """The columns of the table that stands in a document. ValueError without the marks."""
    _, block, _ = _parted(document)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block.splitlines()
        if line.startswith("| ")
    ]
    columns = [Column(kernel) for kernel in rows[0][1:]] if rows else []
    for probe, *cells in rows[1:]:
        for each, cell in zip(columns, cells, strict=True):
            if cell != NOT_TRIED:
                each.cells[probe.strip("`")] = cell
    for each in columns:
        pattern = rf"^- {re.escape(each.kernel)}, `(\w+)`: (.*)$"
        for probe, note in re.findall(pattern, block, re.MULTILINE):
            each.notes.setdefault(probe, []).append(note)
    return columns


def into_document(document: str, block: str) -> str:
    """The document with what is between the marks replaced. ValueError without the marks."""
    before, _, after = _parted(document)
    return f"{before}{BEGIN}\n{block}{END}{after}"


def _parted(document: str) -> tuple[str, str, str]:
    before, begin, rest = document.partition(BEGIN)
    block, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no line {BEGIN}")
    return before, block, after
