"""Messages in a receiver's own words: kept to a length, and never lost."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.message_templates import MessageTemplate
from notifiers.messages.escaped import ChatText, MarkdownText, SlackText, cut_for_slack
from notifiers.messages.templated import WordingError, in_trouble, line_of, text_of
from notifiers.notification import Notification
from notifiers.slack.attachment import MAX_TEXT_BYTES, SlackWording
from tests.notifiers.played import group

LIST = MessageTemplate("{{ range .Alerts }}* {{ .Labels.alertname }} {{ .Labels.rank }}\n{{ end }}")


def of(support: Any, count: int, name: str = "RankSlow") -> Notification:
    alerts = tuple(support.firing(name, rank=str(rank)) for rank in range(count))
    return replace(group(support), alerts=alerts)


def counted(text: str) -> int:
    """Alerts that a text shows or counts."""
    more = re.search(r"^and (\d+) more: ", text, re.MULTILINE)
    return text.count("* ") + (int(more[1]) if more else 0)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 51, 200, 1000])
@pytest.mark.parametrize("limit", [200, 1_000, 9_900])
def test_every_alert_is_shown_or_counted(count: int, limit: int, support: Any) -> None:
    told = of(support, count)
    text = text_of(
        "text", LIST, told, ChatText, lambda one: len(one.encode()) <= limit, cuttable=limit
    ).text
    assert len(text.encode()) <= limit
    assert counted(text) == count


@given(
    st.integers(1, 60),
    st.integers(60, 1_500),
    st.text(alphabet=st.sampled_from("ab<>&|*_`@! \n警报é"), min_size=1, max_size=60),
)
@settings(max_examples=150, deadline=None)
def test_no_text_is_longer_than_its_limit_and_none_is_half_a_character(
    count: int, limit: int, name: str
) -> None:
    from tests.notifiers.conftest import firing

    alerts = tuple(firing(name, rank=str(rank)) for rank in range(count))
    told = Notification("the-id", "ops", "firing", {}, alerts)
    template = MessageTemplate(
        "{{ range .Alerts }}* <http://h|{{ .Labels.alertname }}> &amp; 警\n{{ end }}"
    )
    text = text_of(
        "text",
        template,
        told,
        SlackText,
        lambda one: len(one.encode()) <= limit,
        cuttable=limit,
        cutter=cut_for_slack,
    ).text
    assert len(text.encode()) <= limit
    assert re.fullmatch(r"(?:[^<>&]|<http://h\|[^<>]*>|&(?:amp|lt|gt);)*", text), text


def test_a_template_that_fails_leaves_the_built_in_message_which_says_so(support: Any) -> None:
    wording = SlackWording(text=MessageTemplate("{{ (index .Alerts 99).Labels }}"))
    shown = wording.attachment(of(support, 3), "Slack #ops").body
    assert "RankSlow" in shown["text"]
    assert "The template of 'text' failed, so this is the built-in message:" in shown["text"]
    assert "index out of range: 99" in shown["text"]


def test_a_title_is_one_line_whatever_its_labels_hold(support: Any) -> None:
    alert = support.firing("a\r\nBcc: x@example.com", rank="\x1b[31m")
    told = replace(group(support), alerts=(alert,))
    template = MessageTemplate(
        "{{ range .Alerts }}{{ .Labels.alertname }}\n{{ .Labels.rank }}{{ end }}"
    )
    assert line_of("title", template, told) == "a Bcc: x@example.com [31m"


def test_a_label_of_a_megabyte_is_cut_and_so_is_an_annotation(support: Any) -> None:
    alert = replace(support.firing("a" * 1_000_000), annotations={"summary": "line\n" * 200_000})
    told = replace(group(support), alerts=(alert,))
    template = MessageTemplate(
        "{{ range .Alerts }}{{ .Labels }}{{ .Annotations.summary }}{{ end }}"
    )
    shown = SlackWording(text=template).attachment(told, "Slack").body["text"]
    assert len(shown.encode()) <= MAX_TEXT_BYTES
    assert "built-in" not in shown


def test_a_label_cannot_be_a_template(support: Any) -> None:
    told = replace(group(support), alerts=(support.firing("{{ .Receiver }}{{ template `x` . }}"),))
    template = MessageTemplate("{{ range .Alerts }}{{ .Labels.alertname }}{{ end }}")
    assert line_of("title", template, told) == "{{ .Receiver }}{{ template `x` . }}"


@pytest.mark.parametrize(
    ("printed", "value", "shown"),
    [
        (SlackText, "<!channel> <@U1> <https://e|x> a&b", "&lt;!channel&gt;"),
        (SlackText, "@channel", "@ channel"),
        (ChatText, "@everyone", "@ everyone"),
        (MarkdownText, "**b** [x](http://e) <b>", r"\*\*b\*\* \[x\]\(http://e\) \<b\>"),
    ],
)
def test_values_are_no_markup(printed: Any, value: str, shown: str, support: Any) -> None:
    told = replace(group(support), alerts=(support.firing(value),))
    template = MessageTemplate("{{ range .Alerts }}{{ .Labels.alertname }}{{ end }}")
    assert shown in line_of("title", template, told, printed)
    assert "<!" not in line_of("title", template, told, printed)


def test_an_authors_own_mention_takes_no_name_from_a_label(support: Any) -> None:
    told = replace(group(support), alerts=(support.firing("!channel"),))
    template = MessageTemplate("<{{ (index .Alerts 0).Labels.alertname }}> <!here>")
    assert line_of("title", template, told, SlackText) == "< !channel> <!here>"


def test_the_trouble_is_one_line_and_short(support: Any) -> None:
    with pytest.raises(WordingError) as caught:
        line_of("title", MessageTemplate("{{ tz (printf `%9999d` 1) (index .Alerts 0).StartsAt }}"),
                of(support, 1))  # fmt: skip
    told = in_trouble(of(support, 1), caught.value, "ops")
    assert len(told.trouble) <= 280
    assert "\n" not in told.trouble
