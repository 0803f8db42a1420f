"""From pytest's reports to one table: probe by kernel."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEGIN, END = "<!-- kernels: written by make test-kernels -->", "<!-- end of kernels -->"


@dataclass(frozen=True)
class Outcome:
    """One test on one kernel. `words`: why it was skipped or failed."""

    probe: str
    test: str
    state: Literal["passed", "skipped", "failed"]
    words: str = ""


def read_report(text: str) -> tuple[Outcome, ...]:
    """Outcomes from junit XML."""
    cases = ET.fromstring(text).iter("testcase")
    return tuple(_outcome(case) for case in cases)


def _outcome(case: ET.Element) -> Outcome:
    found = re.search(r"tests/(?:probes/(\w+)/|e2e/test_(\w+)\.py)", case.get("file") or "")
    probe = next(filter(None, found.groups())) if found else "?"
    name = case.get("name") or ""
    for child in case:
        if child.tag == "skipped":
            return Outcome(probe, name, "skipped", child.get("message") or "")
        if child.tag in {"failure", "error"}:
            return Outcome(probe, name, "failed", (child.get("message") or "").split("\n")[0])
    return Outcome(probe, name, "passed")


def table(runs: Mapping[str, Sequence[Outcome]]) -> str:
    """Markdown: a row for each probe, a column for each kernel, and below what was not so."""
    probes = sorted({each.probe for outcomes in runs.values() for each in outcomes})
    lines = ["| probe | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    for probe in probes:
        cells = [_cell([o for o in outcomes if o.probe == probe]) for outcomes in runs.values()]
        lines.append(f"| `{probe}` | " + " | ".join(cells) + " |")
    notes = [
        f"- {kernel}, `{each.probe}`: {_sentence(each.test)}: {each.state}: {each.words}"
        for kernel, outcomes in runs.items()
        for each in outcomes
        if each.state != "passed"
    ]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _cell(outcomes: Sequence[Outcome]) -> str:
    passed = sum(each.state == "passed" for each in outcomes)
    if not outcomes:
        return "not tried"
    if passed == len(outcomes):
        return f"yes ({passed} test{'s' * (passed > 1)})"
    return f"{passed} of {len(outcomes)}"


def _sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def into_document(document: str, block: str) -> str:
    """The document with what is between the marks replaced. ValueError without the marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no line {BEGIN}")
    return f"{before}{BEGIN}\n{block}{END}{after}"
