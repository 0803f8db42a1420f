from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import check
from engine.cli.main import main
from engine.config.alertmanager import SECTIONS
from engine.config.alertmanager_receivers import UNSPOKEN
from engine.config.model import Config
from engine.config.services import SERVICES

GOOD = "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: up == 0\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(GOOD.replace("== 0", "== ") + "    fro: 5m\n")
    (tmp_path / "stallwatch.yaml").write_text("cluster: a\nqueue: {size: 10}\n")
    return tmp_path


def test_a_good_file_is_a_success(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "good.yaml"]) == 0
    assert capsys.readouterr().out == "good.yaml: SUCCESS: 1 rule in 1 group\n"


def test_every_problem_of_a_bad_file_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "bad.yaml", "good.yaml"]) == 1
    out = capsys.readouterr().out
    assert "bad.yaml:5:16: unexpected end of expression" in out
    assert "bad.yaml:6:5: a rule has no field 'fro'" in out
    assert "hint: did you mean 'for'?" in out
    assert "bad.yaml: FAILED: 2 errors\n" in out
    assert out.endswith("good.yaml: SUCCESS: 1 rule in 1 group\n")


def test_every_field_of_a_configuration_tells_that_it_is_one() -> None:
    assert set(Config.model_fields) == check.CONFIGURATION_KEYS


def test_a_configuration_is_told_by_its_keys(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "stallwatch.yaml"]) == 0
    assert "stallwatch.yaml: SUCCESS: a valid configuration" in capsys.readouterr().out
    Path("stallwatch.yaml").write_text("clustr: a\nqueue: {size: 0}\n")
    assert main(["check", "stallwatch.yaml"]) == 1
    out = capsys.readouterr().out
    assert "stallwatch.yaml:1:1: the configuration has no field 'clustr'" in out
    assert "stallwatch.yaml:2:15: 'queue.size': Input should be greater than" in out


PAGER = "receivers: [{name: a, pagerduty_configs: [{routing_key: s3cret}]}]\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        # By its name, or by receivers that only Alertmanager's file has.
        ("alertmanager.yml", "route: {receiver: a}\nreceivers: [{name: a}]\n", "alertmanager.yml"),
        ("am.yml", f"route: {{receiver: a}}\n{PAGER}", "alertmanager.yml"),
        ("am.yml", "route: {receiver: a}\nreceivers: [{name: a}]\n", "configuration"),
        ("alertmanager.yml", "listen: 127.0.0.1:1\n", "configuration"),
        ("alertmanager-rules.yml", GOOD, "1 rule in 1 group"),
    ],
)
def test_an_alertmanager_yml_is_checked_as_one(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    Path(name).write_text(text)
    assert main(["check", name]) == 0
    out = capsys.readouterr().out
    article = "" if "rule" in said else "a valid "
    assert out.endswith(f"{name}: SUCCESS: {article}{said}\n")
    assert "s3cret" not in out


def test_two_routes_whose_groups_have_one_key_are_warned_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "receivers: [{name: a}]\n"
        "route:\n"
        "  receiver: a\n"
        "  routes:\n"
        "    - {matchers: [x=y], continue: true, routes: [{matchers: [z=1]}]}\n"
        "    - {matchers: [x=y]}\n"
    )
    Path("stallwatch.yaml").write_text(text)
    assert main(["check", "stallwatch.yaml"]) == 0
    assert "stallwatch.yaml:6:8: warning: a route before this one" in capsys.readouterr().out
    # Nothing that the first one takes comes to the second one.
    Path("stallwatch.yaml").write_text(text.replace("continue: true, ", ""))
    assert main(["check", "stallwatch.yaml"]) == 0
    assert "warning" not in capsys.readouterr().out


def test_an_alertmanager_yml_is_refused_where_alertmanager_refuses_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("alertmanager.yml").write_text("receivers: [{name: a}]\n")
    assert main(["check", "alertmanager.yml"]) == 1
    assert "alertmanager.yml:1:1: an alertmanager.yml needs a 'route'" in capsys.readouterr().out


def test_an_alertmanager_yml_that_is_no_yaml_is_told_to_be_just_that(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("alertmanager.yml").write_text("route: {receiver: a\nreceivers: [{name: a}]\n")
    Path("stallwatch.yaml").write_text("alertmanager_config: alertmanager.yml\n")
    for name in ("alertmanager.yml", "stallwatch.yaml"):
        assert main(["check", name]) == 1
        out = capsys.readouterr().out
        assert "alertmanager.yml:2:10: not YAML: expected ',' or '}' here" in out
        assert out.endswith(f"{name}: FAILED: 1 error\n")


def test_each_kind_of_receiver_that_only_alertmanager_has_tells_its_file() -> None:
    theirs = set(SERVICES) | set(UNSPOKEN)
    assert {f"{kind}_configs" for kind in theirs} == check.ALERTMANAGERS
    assert set(SECTIONS) == check.ALERTMANAGER_KEYS


def test_a_file_that_is_not_there_cannot_be_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("none.yaml", "*.nothing"):
        assert main(["check", path]) == 2
        assert path in capsys.readouterr().err


def test_json_has_every_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.yaml", "--format", "json"]) == 1
    (file,) = json.loads(capsys.readouterr().out)
    assert (file["file"], file["kind"], file["ok"]) == ("bad.yaml", "rules", False)
    places = [(p["line"], p["column"], p["severity"]) for p in file["problems"]]
    assert places == [(5, 16, "error"), (6, 5, "error")]


def test_portable_names_what_needs_a_feature_flag(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("new.yaml").write_text(GOOD.replace("up == 0", "sort_by_label(up, 'a')"))
    assert main(["check", "new.yaml"]) == 0
    capsys.readouterr()
    assert main(["check", "--portable", "new.yaml"]) == 1
    out = capsys.readouterr().out
    assert "new.yaml:5:11: 'sort_by_label' is not stable PromQL" in out
    assert "--enable-feature=promql-experimental-functions" in out


@pytest.mark.parametrize(
    ("expr", "name", "flag"),
    [
        ("rate(x[5m * 2])", "5m * 2", "promql-duration-expr"),
        ("rate(x[5m] anchored)", "anchored", "promql-extended-range-selectors"),
        ("a + fill (0) b", "fill", "promql-binop-fill-modifiers"),
        ("limitk(1, x)", "limitk", "promql-experimental-functions"),
        ("info(x)", "info", "promql-experimental-functions"),
    ],
)
def test_portable_knows_the_flag_of_each_experimental_part(
    folder: Path, capsys: pytest.CaptureFixture[str], expr: str, name: str, flag: str
) -> None:
    Path("new.yaml").write_text(GOOD.replace("up == 0", expr))
    assert main(["check", "--portable", "new.yaml"]) == 1
    out = capsys.readouterr().out
    assert f"'{name}' is not stable PromQL" in out
    assert f"--enable-feature={flag}" in out


def test_portable_lets_a_resolve_expression_be_since_prometheus_does_not_read_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.rstrip() + "\n    annotations: {stallwatch_resolve_expr: 'limitk(1, up)'}\n"
    Path("new.yaml").write_text(text)
    assert main(["check", "--portable", "new.yaml"]) == 0, capsys.readouterr().out


def test_portable_names_functions_of_our_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("new.yaml").write_text(GOOD.replace("up == 0", "zscore_over_time(up[1h]) > 3"))
    assert main(["check", "--portable", "new.yaml"]) == 1
    out = capsys.readouterr().out
    assert "new.yaml:5:11: 'zscore_over_time' is stallwatch's own" in out
    assert "record the result here and let it read that" in out


def test_a_directory_stands_for_its_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "."]) == 1
    out = capsys.readouterr().out
    assert out.count("SUCCESS") == 2
    assert out.count("FAILED") == 1


@pytest.mark.parametrize(
    "text",
    [
        "https://hooks.example/S3CR3T\n",
        "webhook_url: https://hooks.example/S3CR3T\n",
        "receivers:\n- name: a\n  webhook_configs:\n  - url: https://hooks.example/S3CR3T: x\n",
        'receivers:\n- name: a\n  webhook_configs:\n  - url: "https://hooks.example/S3CR3T\n',
    ],
)
def test_a_file_too_broken_to_be_known_shows_no_secret(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("conf.yaml").write_text(text)
    assert main(["check", "conf.yaml"]) == 1
    assert main(["check", "conf.yaml", "--format", "json"]) == 1
    assert main(["notify", "test", "--config", "conf.yaml"]) == 2
    assert "S3CR3T" not in str(capsys.readouterr())


def test_a_misspelt_configuration_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("conf.yaml").write_text("listenn: 127.0.0.1:9466\n")
    assert main(["check", "conf.yaml"]) == 1
    assert "conf.yaml:1:1: the configuration has no field 'listenn'" in capsys.readouterr().out


def test_a_rule_without_a_group_is_shown_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rule.yaml").write_text("alert: A\nexpr: up == 0\n")
    assert main(["check", "rule.yaml"]) == 1
    assert "    alert: A\n" in capsys.readouterr().out
