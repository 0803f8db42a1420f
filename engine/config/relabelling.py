"""The section `alert_relabel_configs`, in Prometheus' spelling.

What is refused is what `Config.Validate` in model/relabel/relabel.go of Prometheus refuses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.alerts.relabelling import ACTIONS, EVERYTHING, FIRST_GROUP, RelabelRule
from engine.config.matching import label_names
from engine.promql.functions.relabel import is_label_name
from rules.fields import Fields, did_you_mean
from rules.promql.regex import PatternError, compile_matcher

if TYPE_CHECKING:
    from engine.alerts.relabelling import Action
    from rules.document import Mapping
    from rules.fields import Report

SECTION = "alert_relabel_configs"
_FIELDS = ("source_labels", "separator", "regex", "modulus", "target_label", "replacement",
           "action")  # fmt: skip
_NEEDS_TARGET = frozenset({"replace", "hashmod", "lowercase", "uppercase", "keepequal",
                           "dropequal"})  # fmt: skip
# By action: the fields that it reads, where it does not read all of them.
_ONLY: dict[Action, frozenset[str]] = {
    "keepequal": frozenset({"source_labels", "target_label", "action"}),
    "dropequal": frozenset({"source_labels", "target_label", "action"}),
    "labeldrop": frozenset({"regex", "action"}),
    "labelkeep": frozenset({"regex", "action"}),
    "lowercase": frozenset(_FIELDS) - {"replacement"},
    "uppercase": frozenset(_FIELDS) - {"replacement"},
}
_REFERENCE = re.compile(r"\$(\{\w+\}|\w+)", re.ASCII)
_MODULI = 2**63


def read_relabelling(report: Report, root: Mapping) -> tuple[RelabelRule, ...]:
    """All steps of a file's section; problems are reported."""
    found = (
        Fields.of(report, node, f"an element of '{SECTION}'", _FIELDS)
        for node in Fields(report, root).items(SECTION)
    )
    return tuple(_rule(one) for one in found if one is not None)


def _rule(fields: Fields) -> RelabelRule:
    action = _action(fields)
    rule = RelabelRule(
        action=action,
        source_labels=tuple(label for label, _ in label_names(fields, "source_labels")),
        separator=_text(fields, "separator", ";"),
        regex=_regex(fields),
        target_label=_text(fields, "target_label", ""),
        replacement=_text(fields, "replacement", FIRST_GROUP),
        modulus=_modulus(fields, action),
    )
    _check_target(fields, rule)
    if rule.action == "labelmap" and not _is_name_or_template(rule.replacement):
        _wrong(fields, "replacement", f"'{rule.replacement}' is no label's name")
    for name in _FIELDS:
        if name not in _ONLY.get(action, _FIELDS) and fields.entry(name) is not None:
            read = ", ".join(f"'{each}'" for each in _FIELDS if each in _ONLY[action])
            message = f"'{action}' does not read '{name}'"
            fields.report.add(fields.key(name), message, f"it reads {read}", "relabel")
    return rule


def _check_target(fields: Fields, rule: RelabelRule) -> None:
    if rule.action not in _NEEDS_TARGET:
        return
    fits = _is_name_or_template if rule.action == "replace" else is_label_name
    if not rule.target_label:
        message = f"'{rule.action}' needs 'target_label'"
        fields.report.add(fields.head, message, "such as 'target_label: node'", "relabel")
    elif not fits(rule.target_label):
        _wrong(fields, "target_label", f"'{rule.target_label}' is no label's name")


def _action(fields: Fields) -> Action:
    scalar = fields.text("action")
    if scalar is None:
        return "replace"
    for action in ACTIONS:
        if scalar.value.lower() == action:
            return action
    message = f"there is no action '{scalar.value}'"
    fields.report.add(scalar.span, message, did_you_mean(scalar.value, ACTIONS), "relabel")
    return "replace"


def _regex(fields: Fields) -> str:
    text = _text(fields, "regex", EVERYTHING)
    try:
        compile_matcher(text)
    except PatternError as error:
        _wrong(fields, "regex", f"'regex': {error}", error.hint)
        return EVERYTHING
    return text


def _modulus(fields: Fields, action: Action) -> int:
    modulus = fields.integer("modulus")
    if action == "hashmod" and not 0 < modulus < _MODULI:
        entry = fields.entry("modulus")
        span = fields.head if entry is None else entry.value.span
        message = "'hashmod' needs a 'modulus' above 0"
        fields.report.add(span, message, "such as 'modulus: 4'", "relabel")
        return 1
    return modulus


def _text(fields: Fields, name: str, default: str) -> str:
    scalar = fields.text(name)
    return default if scalar is None else scalar.value


def _wrong(fields: Fields, name: str, message: str, hint: str = "") -> None:
    entry = fields.entry(name)
    span = fields.head if entry is None else entry.value.span
    fields.report.add(span, message, hint, "relabel")


def _is_name_or_template(text: str) -> bool:
    """A label's name once the references in it are names, too."""
    return is_label_name(_REFERENCE.sub("name", text))
