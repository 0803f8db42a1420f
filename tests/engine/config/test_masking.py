"""What excerpts show: no secret, however broken the file, and everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.config.loader import load_source
from rules.slotted import replace
from rules.source import Source

MARK = "Zq7"
# `%` is the secret. Each is right but for what the tests break in it.
FILES = (
    """\
receivers:
  - name: gpu team
    email_configs:
      - to: oncall@mail
        from: Agent <agent@example.com>
        smarthost: mail:25
        auth_password: %
        send_resolved: true
""",
    """\
{receivers: [{name: a, slack_configs: [{token: %, channel: '#ops', title: x}]}], \
route: {receiver: a, group_by: [task_id, tier]}}
""",
    """\
route: {receiver: a, group_wait: 5s}
receivers:
- {name: a, webhook_configs: [{url: 'https://hooks.example/%', timeout_seconds: 3}]}
- name: b
  webhook_configs: [{url: %, http_config: {authorization: {credentials: "%"}}}]
""",
)  # fmt: skip
SECRETS = st.lists(
    st.text("abcXYZ019_-+/=,:.#@ ", max_size=6), min_size=1, max_size=3
).map(lambda parts: MARK + MARK.join(parts).replace(": ", ":") + MARK)  # fmt: skip


def shown(text: str) -> str:
    _, problems = load_source(Source("stallwatch.yaml", text), Path())
    return "\n".join(problem.render() for problem in problems)


@given(st.sampled_from(FILES), SECRETS, st.data())
@settings(max_examples=400, deadline=None)
def test_no_excerpt_shows_a_secret_whatever_is_broken(
    file: str, secret: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(file) - 1))
    # A letter of a key that is lost makes another key; the secret itself stays.
    assume(file[at] != "%")
    put = data.draw(
        st.sampled_from(["", "\n", " ", "\t", "{", "}", "[", "]", ":", ",", "'", '"', "x"])
    )
    taken = data.draw(st.integers(0, 1))
    broken = file[:at] + put + file[at + taken :]
    _, problems = load_source(Source("stallwatch.yaml", broken.replace("%", secret)), Path())
    assert not [one for one in problems if MARK in replace(one, message="").render()]


def excerpt(text: str) -> str:
    """The first excerpt's line."""
    return shown(text).splitlines()[1].strip()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        # One line that is not understood: what may be a secret goes, the rest stays.
        (FILES[1].replace("%", "xoxb-1,2").replace("}}\n", "\n"),
         ("{receivers: [{name: a, slack_configs: [{token: ********, channel: '#ops', title: *}]}], "
          "route: {receiver: a, group_by: [task_id, tier]")),
        (("receivers:\n- name: gpu team\n  email_configs: {from: Agent <a@mail>, "
          "auth_password: hunter2, to: b@c.d}\n"),
         "email_configs: {from: Agent <a@mail>, auth_password: *******, to: b@c.d}"),
        ("receivers:\n- name: a\n- name: a\n  slack_configs: []\n", "- name: a"),
        ("receivers: []\nroute: {receiver: b}\n", "route: {receiver: b}"),
        # What is no ordinary value stays hidden behind an ordinary name.
        ("receivers:\n- name: a\n  x_configs: {to: a, b c, from: a token:x}\n",
         "x_configs: {to: a, * *, from: a token:*}"),
    ],
)  # fmt: skip
def test_only_what_may_be_a_secret_is_starred(text: str, line: str) -> None:
    assert excerpt(text) == line


def test_the_rest_of_a_value_behind_a_comma_is_no_name() -> None:
    text = (
        "receivers:\n- {name: a, webhook_configs: [{url: 'http://x', headers: {a: b}, s3cret}]}\n"
    )
    told = shown(text)
    assert "expected 'name: value'" in told
    assert "s3cret" not in told
