"""The checks, each a module of its own whose docstring is its page in docs/lint/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rules.lint import (
    changing_label,
    for_below_interval,
    label_not_in_result,
    never_fires,
    never_resolves,
    no_data,
    rate_over_gauge,
)

if TYPE_CHECKING:
    from types import ModuleType

CHECKS: Final[tuple[ModuleType, ...]] = (
    never_fires,
    never_resolves,
    rate_over_gauge,
    label_not_in_result,
    for_below_interval,
    changing_label,
    no_data,
)
CODES: Final = tuple(str(check.CODE) for check in CHECKS)


def page(code: str) -> str:
    """Where a code is explained."""
    return f"docs/lint/{code}.md"
