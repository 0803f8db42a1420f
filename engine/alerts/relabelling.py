"""Relabelling of alerts before they are sent: `alert_relabel_configs`, as Prometheus means it.

Source: `relabel` in model/relabel/relabel.go of Prometheus.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from engine.labels import Labels
from engine.promql.functions.relabel import is_label_name
from engine.promql.regex import compile_pattern
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

Action: TypeAlias = Literal[
    "replace", "keep", "drop", "keepequal", "dropequal", "hashmod",
    "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase",
]  # fmt: skip
ACTIONS: tuple[Action, ...] = get_args(Action)
EVERYTHING = "(.*)"
FIRST_GROUP = "$1"


@dataclass(frozen=True, slots=True)
class RelabelRule:
    """One step. `regex` is RE2 and has to match the whole value, or the whole name of a label.

    `replacement` and, for `replace`, `target_label` are templates: `$1`, `${name}`.
    """

    action: Action = "replace"
    source_labels: tuple[str, ...] = ()
    separator: str = ";"
    regex: str = EVERYTHING
    target_label: str = ""
    replacement: str = FIRST_GROUP
    modulus: int = 0


def relabel(rules: Iterable[RelabelRule], labels: Labels) -> Labels | None:
    """The labels after all steps, in their order; None: the alert is dropped."""
    own = labels.to_dict()
    for rule in rules:
        if not _step(rule, own):
            return None
    return Labels(own)


def _step(rule: RelabelRule, labels: dict[str, str]) -> bool:
    """Change `labels`; False where the alert goes no further."""
    value = rule.separator.join(labels.get(name, "") for name in rule.source_labels)
    if rule.action in {"keep", "drop"}:
        matches = compile_pattern(rule.regex).expand("", value) is not None
        return matches == (rule.action == "keep")
    if rule.action in {"keepequal", "dropequal"}:
        same = labels.get(rule.target_label, "") == value
        return same == (rule.action == "keepequal")
    if rule.action in {"labelmap", "labeldrop", "labelkeep"}:
        _by_name(rule, labels)
    elif rule.action == "replace":
        _replace(rule, labels, value)
    else:
        _set(labels, rule.target_label, _computed(rule, value))
    return True


def _computed(rule: RelabelRule, value: str) -> str:
    if rule.action == "lowercase":
        return value.lower()
    if rule.action == "uppercase":
        return value.upper()
    # The last eight bytes, as Prometheus has always taken them.
    digest = hashlib.md5(value.encode("utf-8", "surrogateescape"), usedforsecurity=False).digest()
    return str(int.from_bytes(digest[8:], "big") % rule.modulus)


def _replace(rule: RelabelRule, labels: dict[str, str], value: str) -> None:
    pattern = compile_pattern(rule.regex)
    target = pattern.expand(rule.target_label, value)
    text = pattern.expand(rule.replacement, value)
    if target is not None and text is not None and is_label_name(target):
        _set(labels, target, text)


def _by_name(rule: RelabelRule, labels: dict[str, str]) -> None:
    pattern = compile_pattern(rule.regex)
    for name, value in list(labels.items()):
        new = pattern.expand(rule.replacement if rule.action == "labelmap" else "", name)
        if rule.action == "labelmap":
            if new is not None:
                _set(labels, new, value)
        elif (new is None) == (rule.action == "labelkeep"):
            del labels[name]


def _set(labels: dict[str, str], name: str, value: str) -> None:
    """An empty value takes the label away."""
    labels.pop(name, None)
    if value:
        labels[name] = value
