"""What `probes:` in stallwatch.yaml may hold: a setting that no probe reads is a mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.config.loader import load_config
from rules.source import ProblemsError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("section", "place", "message", "hint"),
    [
        (
            "tcp_retransmit: {enabled: true, owner_limit: 5}",
            "2:35",
            "the probe 'tcp_retransmit' has no field 'owner_limit'",
            "did you mean 'owners_limit'?",
        ),
        ("tcp_retransmit: {ring_pages: many}", "2:32", "'ring_pages': expected a whole number", ""),
        ("tcp_retransmit: {ring_pages: 0}", "2:32", "'ring_pages': ", ""),
        ("gpu: {interval: 5s}", "2:9", "the probe 'gpu' has no field 'interval'", ""),
    ],
)
def test_a_setting_without_effect_is_refused_at_its_place(
    section: str, place: str, message: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "stallwatch.yaml"
    file.write_text(f"probes:\n  {section}\n", encoding="utf-8")
    with pytest.raises(ProblemsError) as caught:
        load_config(file)
    assert f"stallwatch.yaml:{place}: {message}" in str(caught.value)
    assert hint in str(caught.value)


def test_what_a_probe_reads_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "stallwatch.yaml"
    section = "{owners_limit: 1024, processes_limit: 64, flows_limit: 64, ring_pages: 8}"
    file.write_text(f"probes:\n  tcp_retransmit: {section}\n  gpu: {{enabled: false}}\n")
    config = load_config(file)
    assert config.probe("tcp_retransmit").settings["ring_pages"] == 8
    assert not config.probe("gpu").enabled
