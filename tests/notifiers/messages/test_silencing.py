"""The command that a reader may paste to silence a group."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.alerts.alert import Alert, AlertState
from engine.alerts.wording import inert
from engine.labels import Labels
from notifiers.cli.silence import matchers_of
from notifiers.messages.plain import text
from notifiers.messages.silencing import silence_command
from notifiers.notification import Notification
from notifiers.origin import Origin


@pytest.mark.parametrize(
    ("labels", "command"),
    [
        ({"task_id": "slurm:7.0", "alertname": "A"}, 'alertname="A" task_id="slurm:7.0"'),
        ({"alertname": "A b"}, "'alertname=\"A b\"'"),
        ({"alertname": "$(reboot)`x`"}, "'alertname=\"$(reboot)`x`\"'"),
        ({"alertname": 'it\'s "so"'}, '\'alertname="it\'"\'"\'s \\"so\\""\''),
        ({"alertname": "A", "region": "eu"}, 'alertname="A"'),
        ({"alertname": "two\nlines"}, None),
        ({"alertname": "A", "odd name": "x"}, None),
        ({"alertname": "x" * 301}, None),
    ],
)
def test_the_command_silences_the_group_and_runs_nothing_else(
    labels: dict[str, str], command: str | None, support: Any
) -> None:
    origin = Origin(external_labels={"region": "eu"})
    told = Notification("i", "ops", "firing", labels, (support.firing(),), origin=origin)
    expected = f"stallwatch silence add {command} --comment 'message i'" if command else ""
    assert silence_command(told) == expected


NAMES = st.sampled_from(["alertname", "task_id", "node", "region"])
VALUES = st.text("ab $`\"'\\{},=~!;&|<>*?#é警\n\t-", min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1))
def test_a_shell_and_the_command_read_the_labels_back(labels: dict[str, str]) -> None:
    alert = Alert(Labels(labels), {}, AlertState.FIRING, 1.0, 0, 0)
    command = silence_command(Notification("i", "ops", "firing", labels, (alert,)))
    if not command:
        assert any(inert(value) != value for value in labels.values())
        return
    words = shlex.split(command)
    assert (words[:3], words[-2:]) == (["stallwatch", "silence", "add"], ["--comment", "message i"])
    read = {matcher.label: matcher.value for matcher in matchers_of(words[3:-2])}
    assert read == labels
    assert all(matcher.op == "=" for matcher in matchers_of(words[3:-2]))


def test_a_group_without_labels_is_silenced_by_what_its_alerts_share(support: Any) -> None:
    told = ungrouped(support.firing("A"), support.firing("B"))
    assert 'silence add node="n1" task_id="torchrun:job42" --comment' in silence_command(told)
    assert "To silence" not in text(ungrouped(support.firing("A"), other(support)))


def other(support: Any) -> Any:
    return support.firing("B", task_id="slurm:7.0", node="n2")


def ungrouped(*alerts: Any) -> Notification:
    return Notification("the-id", "ops", "firing", {}, alerts)
