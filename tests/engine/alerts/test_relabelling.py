from __future__ import annotations

from typing import Any

import pytest

from engine.alerts.relabelling import RelabelRule, relabel
from engine.labels import Labels

ALERT = {"alertname": "A", "node": "gpu-17.rack2", "rank": "3"}


def relabelled(*rules: dict[str, Any], **labels: str) -> dict[str, str] | None:
    found = relabel([RelabelRule(**rule) for rule in rules], Labels(labels or ALERT))
    return None if found is None else found.to_dict()


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ({"target_label": "team", "replacement": "net"}, {"team": "net"}),
        (
            {"source_labels": ("node",), "regex": r"(.+)\.(.+)", "target_label": "rack",
             "replacement": "r-$2"},
            {"rack": "r-rack2"},
        ),
        (
            {"source_labels": ("node",), "regex": r"(?P<host>.+)\..+", "target_label": "x_${host}",
             "replacement": "${host}"},
            {"x_gpu-17": "gpu-17"},
        ),
        # The whole value has to match.
        ({"source_labels": ("node",), "regex": "gpu", "target_label": "x"}, {}),
        ({"source_labels": ("node", "rank"), "separator": "@", "target_label": "x"},
         {"x": "gpu-17.rack2@3"}),
        # A label that is replaced by nothing is gone, and so is one that takes a missing one's.
        ({"target_label": "rank", "replacement": ""}, {"rank": ""}),
        ({"source_labels": ("none",), "target_label": "rank"}, {"rank": ""}),
        ({"action": "labeldrop", "regex": "node|replica"}, {"node": ""}),
        ({"action": "labelkeep", "regex": "a.*"}, {"node": "", "rank": ""}),
        ({"action": "labelmap", "regex": "(no|ra)(..)", "replacement": "${2}_$1"},
         {"de_no": "gpu-17.rack2", "nk_ra": "3"}),
        ({"action": "uppercase", "source_labels": ("node",), "target_label": "node"},
         {"node": "GPU-17.RACK2"}),
        ({"action": "lowercase", "source_labels": ("alertname",), "target_label": "x"},
         {"x": "a"}),
    ],
)  # fmt: skip
def test_an_action_changes_labels(rule: dict[str, Any], changed: dict[str, str]) -> None:
    expected = {name: value for name, value in {**ALERT, **changed}.items() if value}
    assert relabelled(rule) == expected


# Values of Prometheus' own test of hashmod.
@pytest.mark.parametrize(("value", "bucket"), [("baz", "976"), ("foo\nbar", "734")])
def test_hashmod_is_prometheus_hash(value: str, bucket: str) -> None:
    rule = {"action": "hashmod", "source_labels": ("c",), "target_label": "d", "modulus": 1000}
    assert relabelled(rule, c=value) == {"c": value, "d": bucket}


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        ({"action": "keep", "source_labels": ("rank",), "regex": "[0-3]"}, True),
        ({"action": "keep", "source_labels": ("rank",), "regex": "[0-2]"}, False),
        ({"action": "drop", "source_labels": ("rank",), "regex": "[0-3]"}, False),
        ({"action": "drop", "source_labels": ("rank",), "regex": "[0-2]"}, True),
        ({"action": "drop", "source_labels": ("none",), "regex": ""}, False),
        ({"action": "keepequal", "source_labels": ("node",), "target_label": "rank"}, False),
        ({"action": "keepequal", "source_labels": ("node",), "target_label": "node"}, True),
        ({"action": "dropequal", "source_labels": ("node",), "target_label": "node"}, False),
        ({"action": "dropequal", "source_labels": ("node",), "target_label": "rank"}, True),
    ],
)
def test_an_alert_is_dropped_or_stays_as_it_is(rule: dict[str, Any], stays: bool) -> None:
    assert relabelled(rule) == (ALERT if stays else None)


def test_steps_are_taken_in_their_order() -> None:
    steps: list[dict[str, Any]] = [
        {"source_labels": ("node",), "regex": "(.*?)[.].*", "target_label": "host"},
        {"action": "labeldrop", "regex": "node"},
        {"action": "drop", "source_labels": ("node",), "regex": ".+"},
    ]
    assert relabelled(*steps) == {"alertname": "A", "host": "gpu-17", "rank": "3"}
