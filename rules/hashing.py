"""One hash for what a set of rules means, so that a recording can tell whether they changed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from rules.model import AlertingRule
from rules.promql import printer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rules.model import Group, Rule, RuleFile


def rules_hash(files: Iterable[RuleFile]) -> str:
    """SHA-256 (hexadecimal) over the meaning of the rules, in order.

    Layout, comments, YAML style and where the files lie do not count.
    """
    content = [[_group(group) for group in file.groups] for file in files]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": group.interval_ms,
        "query_offset": group.query_offset_ms,
        "limit": group.limit,
        "rules": [_rule(rule) for rule in group.rules],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    meaning: dict[str, Any] = {
        "name": rule.name,
        "expr": printer.format(rule.expression.tree),
        "labels": rule.labels,
    }
    if isinstance(rule, AlertingRule):
        meaning["for"] = rule.for_ms
        meaning["keep_firing_for"] = rule.keep_firing_for_ms
        meaning["annotations"] = rule.annotations
    return meaning
