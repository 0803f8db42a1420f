"""An alertmanager.yml in the place of our own sections."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.config.loader import load_config, load_source
from rules.source import ProblemsError, Source

if TYPE_CHECKING:
    from engine.config.model import Config

CASES = Path(__file__).parent / "alertmanager"
FLOW = "https://prod-1.westus.logic.azure.com:443/workflows/s3cretflow/triggers/manual/paths/invoke"
REFUSED = sorted((CASES / "refused").glob("*.yml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "word").write_text("s3cret-file\n")
    (tmp_path / "word-url").write_text("http://other.example/s3cret\n")
    (tmp_path / "bot").write_text("123456789:AAs3cret-bot\n")
    shutil.copy(CASES / "everything.yml", tmp_path / "alertmanager.yml")
    return tmp_path


def _load(folder: Path, text: str = "alertmanager_config: alertmanager.yml\n") -> Config:
    (folder / "stallwatch.yaml").write_text(text)
    return load_config(folder / "stallwatch.yaml")


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    def shown(value: Any) -> Any:
        if isinstance(value, dict):
            return _plain(value)
        return value.get_secret_value() if hasattr(value, "get_secret_value") else value

    return {name: shown(value) for name, value in settings.items()}


def test_its_receivers_are_ours_or_spoken_by_apprise(folder: Path) -> None:
    mail, chats = _load(folder).receivers
    assert [_plain(one.settings) for one in mail.integrations] == [
        {
            "to": "oncall@example.com",
            "smarthost": "mail.example:587",
            "from": "stallwatch@example.com",
            "auth_username": "me",
            "auth_password": "s3cret-word",
            "require_tls": False,
            "headers": {"Subject": "{{ .Status }}"},
            "send_resolved": False,
        },
        {
            "to": "boss@example.com",
            "from": "other@example.com",
            "send_resolved": True,
            "auth_password": "s3cret-file",
            "smarthost": "mail.example:587",
            "auth_username": "me",
            "require_tls": False,
        },
    ]
    hook, other, slack, bot, *spoken = chats.integrations
    proxy = {"proxy_url": "http://proxy.example:3128"}
    assert _plain(hook.settings) == {"url": "http://hook.example/s3cret", "http_config": proxy}
    assert _plain(other.settings) == {"url": "http://other.example/s3cret", "http_config": {}}
    hook_url = "https://hooks.slack.com/services/T1/B2/s3cretword"
    assert _plain(slack.settings) == {
        "channel": "#alerts", "title": "{{ .CommonLabels.alertname }}", "api_url": hook_url,
        "send_resolved": False,
    }  # fmt: skip
    assert _plain(bot.settings) == {
        "channel": "#other", "token": "xoxb-1234-5678-s3cretword", "send_resolved": True
    }  # fmt: skip
    assert {one.kind for one in spoken} == {"apprise"}
    key = "s3cretpagers3cretpagers3cretpage"
    assert [(_plain(one.settings)["url"], one.settings["send_resolved"]) for one in spoken] == [
        ("tgram://123456789:AAs3cret-bot/-100123/?topic=7", True),
        ("discord://stallwatch@12345/s3cretDiscord/", True),
        (f"pagerduty://{key}@{key}/?severity=critical", False),
        ("opsgenie://s3cret-ops/%23infra/%40bo/?region=eu&priority=p1", True),
        ("pover://s3cretuser@s3cretpush/", True),
        ("victorops://team-a@s3cret-vic/", True),
        ("wxteams://s3cretwebex/ROOM/", True),
        ("sns://AKIA/s3cretaws/eu-west-1/Alerts/", True),
        ("wechat://corp:s3cret-wechat@1000002/%40ann/%40bo/%233/", False),
        ("rockets://me:s3cretrocket@chat.example:8443/%23alerts/?mode=token", False),
        ("mmosts://mm.example/team/s3cretmattermost/?channel=town", True),
        (f"{FLOW}?api-version=2016-06-01&sp=%2F&sv=1.0&sig=s3cretsig", True),
    ]


def test_the_rest_of_it_is_read_as_our_own_sections(folder: Path) -> None:
    config = _load(folder)
    assert config.alertmanager_config == folder / "alertmanager.yml"
    assert config.templates == (str(folder / "templates/*.tmpl"),)
    assert config.route is not None
    assert config.route.routes[0].active_time_intervals == ("office",)
    assert [str(one) for one in config.inhibit_rules[0].source_matchers] == ['tier="1"']
    assert [one.name for one in config.time_intervals] == ["office"]
    assert "s3cret" not in repr(config) + config.model_dump_json()


def test_what_has_no_effect_is_told_and_stops_nothing(folder: Path) -> None:
    text = "alertmanager_config: alertmanager.yml\n"
    config, problems = load_source(Source("stallwatch.yaml", text), folder)
    assert config is not None
    assert {problem.severity for problem in problems} == {"warning"}
    assert [problem.message for problem in problems] == [
        "'http_config' of 'slack_configs' has no effect here",
        "'templates/*.tmpl' matches no file",
        "'class' of 'pagerduty_configs' has no effect here",
    ]


@pytest.mark.parametrize("case", REFUSED, ids=lambda path: Path(path).stem)
def test_what_alertmanager_refuses_is_refused_at_the_place(case: Path, tmp_path: Path) -> None:
    shutil.copy(case, tmp_path / case.name)
    with pytest.raises(ProblemsError) as caught:
        _load(tmp_path, f"alertmanager_config: {case.name}\n")
    expected = case.with_suffix(".expected").read_text()
    assert f"{caught.value}\n".replace(f"{tmp_path}/", "") == expected
    assert "s3cret" not in expected


@pytest.mark.skipif(shutil.which("amtool") is None, reason="needs amtool (prometheus-alertmanager)")
@pytest.mark.parametrize("case", REFUSED, ids=lambda path: Path(path).stem)
def test_amtool_refuses_it_too(case: Path) -> None:
    if "# not by amtool" in case.read_text():
        pytest.skip("the file says that amtool takes it")
    command = ["amtool", "check-config", str(case)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "alertmanager_config: alertmanager.yml\nroute: {receiver: a}\n",
            "stallwatch.yaml:2:1: 'route' and 'alertmanager_config' are both given",
        ),
        ("alertmanager_config: nowhere.yml\n", "nowhere.yml: No such file or directory"),
        ("alertmanager_config: list.yml\n", "list.yml is no alertmanager.yml"),
        ("alertmanager_config: [a]\n", "'alertmanager_config': expected a path"),
        ("global: {smtp_form: a@b.example}\n", "'global' has no field 'smtp_form'"),
        ("templates: a.tmpl\n", "'templates' must be a list, not text"),
    ],
)
def test_what_is_wrong_about_the_setting_itself(folder: Path, text: str, message: str) -> None:
    (folder / "list.yml").write_text("- a\n")
    with pytest.raises(ProblemsError) as caught:
        _load(folder, text)
    assert message in str(caught.value)
    assert "hint" in str(caught.value) or "expected" in message or "No such" in message


def test_our_own_receivers_take_what_is_given_globally(tmp_path: Path) -> None:
    text = """\
global: {smtp_smarthost: 'mail.example:25', smtp_from: a@example.com, smtp_require_tls: false}
receivers:
  - name: mail
    email_configs: [{to: b@example.com}]
"""
    (mail,) = _load(tmp_path, text).receivers
    assert mail.integrations[0].settings == {
        "to": "b@example.com",
        "smarthost": "mail.example:25",
        "from": "a@example.com",
        "require_tls": False,
    }
