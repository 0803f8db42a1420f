"""The pages of docs/lint/: what they show as found is found, what they show as mended is not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rules.lint import Settings, lint, page
from rules.lint.catalogue import CHECKS
from rules.loader import load_source
from rules.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from rules.promql.ast import Matcher

BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


class OneMetric:
    """Data with one metric in it."""

    def matches(self, matchers: Sequence[Matcher]) -> bool:
        return all(one.value == "tcp_retrans_total" for one in matchers)

    def metric_names(self) -> Sequence[str]:
        return ["tcp_retrans_total"]


def codes(text: str) -> set[str]:
    file = load_source(Source("page.yaml", text)).file
    assert file is not None
    return {problem.code for problem in lint(file, Settings(data=OneMetric()))}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.CODE))
def test_the_first_example_is_found_and_the_second_is_not(check: ModuleType) -> None:
    found, mended = BLOCK.findall(check.__doc__ or "")
    assert check.CODE in codes(found)
    assert check.CODE not in codes(mended)


def test_a_page_is_named_after_its_code() -> None:
    assert page("never-fires") == "docs/lint/never-fires.md"
