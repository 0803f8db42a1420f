"""Jinja templates of messages: what they see, what they cannot do, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifiers.messages.escaped import ChatText, MarkdownText, SlackText
from notifiers.messages.template_data import template_data
from notifiers.notification import Notification
from rules.source import Source
from rules.templates import jinja, jinja_sandbox
from rules.templates.errors import TemplateError
from rules.templates.html_places import HtmlPlaces
from rules.templates.jinja import JinjaTemplate, checked, one_message
from rules.templates.marks import marked
from rules.templates.values import Struct
from tests.notifiers.conftest import firing

EVIL = "<!channel> @everyone {{ receiver }}{% raw %} __class__ [x](http://e) <img onerror=x>"


def told(name: str = "RankSlow", count: int = 2) -> Any:
    alerts = tuple(firing(name, rank=str(rank)) for rank in range(count))
    return template_data(Notification("the-id", "ops", "firing", {"task_id": "job:1"}, alerts))


def expand(text: str, printed: Any = None, name: str = "RankSlow", **files: str) -> str:
    sources = {f"{one}.j2": Source(f"{one}.j2", body) for one, body in files.items()}
    return JinjaTemplate(text, sources).expand(told(name), printed)


def failure(text: str, **files: str) -> str:
    with pytest.raises(TemplateError) as caught:
        expand(text, **files)
    return caught.value.message


def test_it_sees_the_data_of_go_templates_in_pythons_spelling() -> None:
    text = """\
{{ status }} {{ receiver }} {{ group_labels.task_id }} {{ common_labels.alertname }}
{% for alert in alerts.firing %}
- {{ alert.labels.rank }}: {{ alert.annotations.summary }}{{ alert.labels.missing }}
{% endfor %}
{{ alerts.resolved|length }} {{ alerts[0].fingerprint|length }}"""
    assert expand(text) == (
        "firing ops job:1 RankSlow\n- 0: Many retransmits\n- 1: Many retransmits\n0 16"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ alerts[0].starts_at|tz('Asia/Shanghai')|date('MST -07:00') }}", "CST +08:00"),
        ("{{ 90|humanize_duration }}", "1m 30s"),
        ("{{ alerts[0].starts_at|since|humanize_duration|match('^[0-9]+d ') }}", "True"),
        ("{{ 'a-b'|re_replace_all('-', '+') }}", "a+b"),
        ("{{ 'gpu IDLE'|title }}", "Gpu Idle"),
        ("{{ group_labels|tojson }}", '{"task_id":"job:1"}'),
        ("{{ 'a%20b'|url_unescape }}", "a b"),
        ("{% macro m() %}\n x \n{% endmacro %}[{{ m()|trim }}]", "[x]"),
        ("{{ '<'|e }}{{ '<'|escape }}", "<<"),
    ],
)
def test_filters(text: str, shown: str) -> None:
    assert expand(text) == shown


def test_files_include_import_and_extend_each_other_and_no_others() -> None:
    files = {
        "frame": "<{% block body %}{% endblock %}>",
        "words": "{% macro bold(text) %}*{{ text }}*{% endmacro %}",
    }
    text = (
        "{% extends 'frame.j2' %}{% from 'words.j2' import bold %}"
        "{% block body %}{{ bold(status) }}{% endblock %}"
    )
    assert expand(text, **files) == "<*firing*>"
    assert failure("{% include '/etc/passwd' %}") == "there is no template '/etc/passwd'"
    assert failure("{% include '/etc/' ~ 'passwd' %}") == (
        "line 1: there is no template '/etc/passwd'"
    )


@pytest.mark.parametrize(
    ("printed", "absent"),
    [
        (SlackText, ("<", "@everyone")),
        (ChatText, ("@everyone",)),
        (MarkdownText, ("[x]", " <", "@everyone")),
        (HtmlPlaces, ("<!", "<img")),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "{{ alerts[0].labels.alertname }}",
        "{% macro m(x) %}<{{ x }}{% endmacro %}{{ m(common_labels.alertname)[1:]|reverse }}",
        "{% set x %}{{ alerts[0].labels.alertname }}{% endset %}{{ 'a' ~ x ~ 'b' }}",
        "{% filter upper|lower %}{{ alerts[0].labels.alertname }}{% endfilter %}",
        "{{ [alerts[0].labels.alertname, 'b'|safe]|join('c'|safe) }}",
        "{{ alerts[0].labels|tojson }}",
    ],
)
def test_a_label_is_never_markup_whatever_it_goes_through(
    printed: Any, absent: tuple[str, ...], text: str
) -> None:
    shown = expand(text, printed(), EVIL)
    assert not [one for one in absent if one in shown]
    assert "receiver" in shown or "reviecer" in shown


def test_names_that_a_text_makes_itself_are_known() -> None:
    text = """\
{%- set n = namespace(count=0) -%}
{%- macro m(a) -%}{{ a }}{{ caller() }}{%- endmacro -%}
{%- for alert in alerts -%}{%- set n.count = n.count + loop.index -%}{%- endfor -%}
{%- call m(n.count) -%}!{%- endcall -%}"""
    assert expand(text) == "3!"


def test_a_value_cannot_carry_the_authors_mark() -> None:
    data = Struct({"Status": marked("<b>")})
    assert JinjaTemplate("{{ status }}", {}).expand(data, HtmlPlaces()) == "\ufffd\ufffd\ufffd"


def test_what_the_author_writes_is_markup_and_safe_makes_a_value_so() -> None:
    text = "<b title='{{ status }}'>{{ '<i>' }}</b>{{ '<u>'|safe }} 🔥"
    assert expand(text, HtmlPlaces()) == "<b title='firing'>&lt;i&gt;</b><u> 🔥"


def test_a_label_is_escaped_for_its_place_in_html() -> None:
    text = "<a href='{{ alerts[0].labels.alertname }}'>x</a>"
    assert expand(text, HtmlPlaces(), "javascript:alert(1)") == "<a href='#unsafe'>x</a>"
    with pytest.raises(TemplateError, match="a value cannot stand in <script>"):
        expand("<script>{{ status }}</script>", HtmlPlaces())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ ''.__class__.__mro__ }}", "is unsafe"),
        ("{{ status|attr('__class__') }}", "is unsafe"),
        ("{{ '{0.__class__}'.format(status) }}", "is unsafe"),
        ("{{ cycler.__init__.__globals__ }}", "is unsafe"),
        ("{{ alerts[0].starts_at.formatted.__globals__ }}", "is unsafe"),
        ("{{ alerts.append(1) }}", "is unsafe"),
        ("\n{{ alerts[0].nope }}", "line 2: 'dict object' has no attribute 'nope'"),
        ("{{ alerts[9].labels }}", "has no element 9"),
        ("{{ status|date('15') }}", "date needs a time"),
    ],
)
def test_what_it_cannot_do_says_so(text: str, why: str) -> None:
    assert why in failure(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "more processor time than a template may take",
        ),
        ("{{ 'x' * 10**10 }}", "more than 512 MiB of memory"),
        ("{{ 'x'|center(10000000000) }}", "more than 512 MiB of memory"),
        ("{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "more than 1,000,000 char"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "nested too deeply"),
    ],
)
def test_what_takes_too_much_is_ended(text: str, why: str) -> None:
    assert why in failure(text)


def test_all_expansions_of_a_message_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jinja, "MESSAGE_SECONDS", 0.0)
    with one_message():
        assert failure("{{ status }}") == "more than 0 s for one message"


def test_a_file_that_fails_is_named_with_its_line() -> None:
    said = failure("{% include 'own.j2' %}", own="a\nb {{ alerts[0].nope }}")
    assert said == "own.j2:2: 'dict object' has no attribute 'nope'"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n  {% if %}", "{% if %}", "Expected an expression"),
        ("{{ status|uper }}\nb", "{{ status|uper }}", "No filter named 'uper'"),
        ("a\n{{ statis }}", "{{ statis }}", "'statis' is not defined"),
        ("{% include 'x.j2' %}", "{% include 'x.j2' %}", "there is no template 'x.j2'"),
        ("{% for x in alerts %}", "{% for x in alerts %}", "Unexpected end of template"),
        ("{{ status|urlize }}", "{{ status|urlize }}", "No filter named 'urlize'"),
        ("\n{% autoescape true %}{% endautoescape %}", None, "'autoescape' is not known here"),
    ],
)
def test_what_is_wrong_is_told_at_its_line_when_it_is_read(
    text: str, line: str | None, message: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        JinjaTemplate(text, {})
    assert caught.value.message.startswith(message)
    start, end = caught.value.span
    assert text[start:end] == (line or text.strip())


WORDS = """\
{{ }} {% %} {# #} {%- -%} if else endif for in set endset macro call block extends include import
from filter raw status x . [ ] ( ) , | ~ ** 'a' 1 1e999 is not == loop super \\ é :"""


@given(
    st.lists(st.sampled_from([*WORDS.split(), "\n"]), max_size=15),
    st.sampled_from([("", ""), ("{{", "}}"), ("{%", "%}")]),
)
@settings(max_examples=300, deadline=None)
def test_whatever_is_written_is_read_or_refused_at_a_place(
    words: list[str], frame: tuple[str, str]
) -> None:
    text = " ".join(words).join(frame)
    try:
        JinjaTemplate(text, {})
    except TemplateError as error:
        start, end = error.span
        assert 0 <= start < end <= max(len(text), 1)


def test_a_number_with_thousands_of_digits_is_refused() -> None:
    text = "{{ " + "9" * 6000 + " }}"
    try:
        JinjaTemplate(text, {})
    except TemplateError as error:
        assert "digits" in error.message  # noqa: PT017 - only newer Pythons refuse it


def test_to_read_a_template_works_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    monkeypatch.setitem(jinja_sandbox._FILTERS, "seen", called.append)
    JinjaTemplate("{{ 'x'|seen }}{% if 'x'|seen %}{% endif %}{% set a = 'x'|seen %}", {})
    assert not called


def test_what_is_wrong_in_a_file_has_its_place_and_names_may_come_from_who_includes_it() -> None:
    files = {
        "a.j2": Source("dir/a.j2", "{{ given }}"),
        "b.j2": Source("dir/b.j2", "b\n {% endif %}"),
    }
    (problem,) = checked(files)
    assert problem.place == "dir/b.j2:2:2"
