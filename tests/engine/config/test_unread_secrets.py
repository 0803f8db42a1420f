"""A secret that cannot be read is one problem, and never waited for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine.config.loader import load_config
from rules.source import ProblemsError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("url: env:STALLWATCH_TEST_NOT_SET", "'STALLWATCH_TEST_NOT_SET' is not set"),
        ("url_file: nothing-there", "cannot read the secret in 'nothing-there': No such file"),
        ("url_file: /dev/null", "the secret in '/dev/null' is empty"),
        ("url_file: pipe", "the secret in 'pipe' is empty"),
    ],
)
def test_a_secret_that_cannot_be_read_is_one_problem(
    tmp_path: Path, given: str, message: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"receivers:\n- name: a\n  webhook_configs:\n  - {given}\n")
    with pytest.raises(ProblemsError) as caught:
        load_config(path)
    (problem,) = caught.value.problems
    assert message in problem.message


@pytest.mark.parametrize(
    "settings",
    [
        "slack_configs: [{token: env:STALLWATCH_TEST_NOT_SET, channel: '#ops'}]",
        "slack_configs: [{api_url: env:STALLWATCH_TEST_NOT_SET}]",
        "slack_configs: [{token_file: nothing-there, channel: '#ops'}]",
    ],
)
def test_settings_are_not_judged_by_what_stands_in_for_a_secret(
    tmp_path: Path, settings: str
) -> None:
    path = tmp_path / "stallwatch.yaml"
    path.write_text(f"receivers:\n- name: a\n  {settings}\n")
    with pytest.raises(ProblemsError) as caught:
        load_config(path)
    (problem,) = caught.value.problems
    assert problem.code == "secret"
