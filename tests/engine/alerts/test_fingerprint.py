from __future__ import annotations

import pytest

from engine.alerts.fingerprint import fingerprint
from engine.labels import Labels


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # The empty set is FNV-1a's offset basis; the others follow prometheus/common's
        # documented algorithm by hand: sorted name, 0xff, value, 0xff.
        ({}, "cbf29ce484222325"),
        # From prometheus/common, model/signature_test.go: 5799056148416392346.
        ({"name": "garland, briggs", "fear": "love is not enough"}, "507a62d79ee76c9a"),
        ({"a": "b"}, None),
        ({"alertname": "Stalled", "task_id": "slurm:7.0"}, None),
        ({"name": "grüße"}, None),
    ],
)
def test_fingerprints_are_fnv_1a_over_sorted_names_and_values(
    labels: dict[str, str], expected: str | None
) -> None:
    text = b"".join(
        name.encode() + b"\xff" + labels[name].encode() + b"\xff" for name in sorted(labels)
    )
    value = 14695981039346656037
    for byte in text:
        value = (value ^ byte) * 1099511628211 % 2**64
    assert fingerprint(labels) == fingerprint(Labels(labels)) == f"{value:016x}"
    if expected is not None:
        assert fingerprint(labels) == expected
