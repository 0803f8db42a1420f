from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from engine.config.kinds import Kinds
from engine.config.loader import load_config
from engine.config.model import Config
from rules.source import ProblemsError

CASES = Path(__file__).parent / "cases"


class _Webhook(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: SecretStr
    timeout_seconds: float = 10.0
    send_resolved: bool = True


KINDS = Kinds(receivers={"webhook": lambda: _Webhook}, probes=frozenset({"gpu", "tcp_retransmit"}))

FULL = """\
listen: "[::1]:9466"
cluster: alpha
flush_interval: 1s
evaluation_interval: 2s
external_labels: {region: eu, zone: 1}
rule_files: ["rules/*.yaml", /etc/rules.yaml]
queue: {size: 128, batch: 16, max_wait: 500ms}
retention: {metrics: 2d, max_bytes: 500MiB}
receivers:
  - name: oncall
    rate_limit: {messages: 20, per: 30m}
    webhook_configs:
      - url: env:STALLWATCH_TEST_URL
      - url_file: secret.txt
        timeout_seconds: 3
probes:
  gpu: {enabled: false}
  tcp_retransmit: {events_per_second: 10}
"""


def test_a_file_says_everything_and_its_secrets_stay_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLWATCH_TEST_URL", "http://hook.example/t0ken")
    (tmp_path / "secret.txt").write_text("http://other.example/s3cret\n")
    (tmp_path / "stallwatch.yaml").write_text(FULL)

    config = load_config(tmp_path / "stallwatch.yaml", KINDS)

    assert config.flush_interval.seconds == 1.0
    assert config.queue.max_wait.ms == 500
    assert config.retention.max_bytes == 500 * 1024**2
    assert config.retention.events.ms == 7 * 86_400_000
    assert config.external_labels == {"region": "eu", "zone": "1"}
    assert config.rule_files == (str(tmp_path / "rules/*.yaml"), "/etc/rules.yaml")
    assert config.route is None  # a lone receiver needs none
    assert not config.probe("gpu").enabled
    assert config.probe("tcp_retransmit").settings == {"events_per_second": 10}
    assert config.probe("process").enabled
    limit = config.receivers[0].rate_limit
    assert limit is not None
    assert (limit.messages, limit.per.ms) == (20, 1_800_000)
    first, second = config.receivers[0].integrations
    assert isinstance(first.parsed, _Webhook)
    assert first.parsed.url.get_secret_value() == "http://hook.example/t0ken"
    assert second.settings["url"].get_secret_value() == "http://other.example/s3cret"
    for shown in (repr(config), str(config), config.model_dump_json()):
        assert "t0ken" not in shown
        assert "s3cret" not in shown


def test_without_a_file_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config()
    assert config.listen == "127.0.0.1:9466"
    assert config.flush_interval.seconds == 10.0
    assert (config.queue.size, config.queue.batch, config.queue.max_wait.ms) == (10_000, 512, 2_000)
    assert config.node


def test_the_working_directory_comes_before_etc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stallwatch.yaml").write_text("cluster: here\n")
    monkeypatch.chdir(tmp_path)
    assert load_config().cluster == "here"


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda path: Path(path).stem)
def test_a_broken_configuration_is_refused_at_the_place(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CASES)
    monkeypatch.delenv("STALLWATCH_TEST_UNSET", raising=False)
    with pytest.raises(ProblemsError) as caught:
        load_config(case.name, KINDS)
    assert f"{caught.value}\n" == case.with_suffix(".expected").read_text()


def test_a_configuration_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.cluster = "other"


def test_no_expected_message_shows_a_secret() -> None:
    assert not [case for case in CASES.glob("*.expected") if "s3cret" in case.read_text()]


def test_a_user_without_a_home_keeps_its_state_in_the_systems_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    monkeypatch.setattr("pathlib.Path.home", nowhere)
    assert Config().state_dir == Path("/var/lib/stallwatch")
