"""Group state as rows of state.db, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from engine.alerts.encoding import alert_from_json, alert_to_json
from engine.labels import Labels
from engine.rulegroup.state import GroupState, RuleKey, RuleState
from engine.series import Sample
from rules.slotted import dataclass

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS alert_schema (id INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS rule_group (
  file TEXT NOT NULL, name TEXT NOT NULL, last_evaluation_ms INTEGER,
  PRIMARY KEY (file, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rule_state (
  file TEXT NOT NULL, group_name TEXT NOT NULL,
  rule TEXT NOT NULL, rule_labels TEXT NOT NULL, ordinal INTEGER NOT NULL,
  alerts TEXT NOT NULL, series TEXT NOT NULL,
  PRIMARY KEY (file, group_name, rule, rule_labels, ordinal)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS last_evaluation (
  file TEXT NOT NULL, group_name TEXT NOT NULL, time_ms INTEGER NOT NULL,
  series TEXT NOT NULL, sample_values BLOB NOT NULL,
  PRIMARY KEY (file, group_name)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A group's last committed evaluation and what it wrote."""

    file: str
    group: str
    time_ms: int
    samples: tuple[Sample, ...]


def write_evaluation(
    connection: sqlite3.Connection, state: GroupState, samples: Sequence[Sample]
) -> None:
    """Replace a group's last evaluation. Values are kept as bits: a marker is a NaN of its own."""
    connection.execute(
        "INSERT OR REPLACE INTO last_evaluation VALUES (?, ?, ?, ?, ?)",
        (
            state.file,
            state.group,
            state.last_evaluation_ms,
            json.dumps([(sample.timestamp_ms, sample.labels.pairs) for sample in samples]),
            np.array([sample.value for sample in samples], dtype="<f8").tobytes(),
        ),
    )


def read_evaluations(connection: sqlite3.Connection) -> list[Evaluation]:
    """Every group's last evaluation."""
    query = "SELECT file, group_name, time_ms, series, sample_values FROM last_evaluation"
    found = []
    for file, group, time_ms, series, values in connection.execute(query):
        samples = tuple(
            Sample(Labels(map(tuple, pairs)), stamp_ms, value)
            for (stamp_ms, pairs), value in zip(
                json.loads(series), np.frombuffer(values, dtype="<f8"), strict=True
            )
        )
        found.append(Evaluation(file, group, time_ms, samples))
    return found


def write_rule(
    connection: sqlite3.Connection, file: str, group: str, key: RuleKey, state: RuleState
) -> None:
    """Insert or replace one rule's state."""
    connection.execute(
        "INSERT OR REPLACE INTO rule_state VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            file,
            group,
            key.name,
            key.labels,
            key.ordinal,
            json.dumps([alert_to_json(alert) for alert in state.alerts.values()]),
            json.dumps(sorted(labels.pairs for labels in state.series)),
        ),
    )


def read_groups(connection: sqlite3.Connection) -> dict[tuple[str, str], GroupState]:
    """Every saved group by (file, name)."""
    rules: dict[tuple[str, str], dict[RuleKey, RuleState]] = {}
    query = "SELECT file, group_name, rule, rule_labels, ordinal, alerts, series FROM rule_state"
    for file, group, name, labels, ordinal, alerts, series in connection.execute(query):
        table = [alert_from_json(row) for row in json.loads(alerts)]
        rules.setdefault((file, group), {})[RuleKey(name, labels, ordinal)] = RuleState(
            {alert.labels: alert for alert in table},
            frozenset(Labels(map(tuple, pairs)) for pairs in json.loads(series)),
        )
    query = "SELECT file, name, last_evaluation_ms FROM rule_group"
    return {
        (file, group): GroupState(file, group, last, rules.get((file, group), {}))
        for file, group, last in connection.execute(query)
    }
