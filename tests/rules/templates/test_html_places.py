"""Whatever a label holds, a mail's HTML stays what its author wrote."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.templates.errors import TemplateError
from rules.templates.html_places import HtmlPlaces
from rules.templates.library import library
from rules.templates.values import Struct

LIBRARY, _ = library()
EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "x onmouseover=alert(1)",
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "java\tscript:alert(1)",
    "</style><script>alert(1)</script>",
    "red;background:url(javascript:alert(1))",
    "--><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "]]><script>",
    "{{ .Secret }}",
    "\x00<b>",
    "&lt;b&gt;",
]
DOCUMENTS = [
    "<p>{{ .X }}</p>",
    '<a href="{{ .X }}">x</a>',
    "<a href='{{ .X }}'>x</a>",
    "<a href={{ .X }}>x</a>",
    '<a href="https://h.example/{{ .X }}?q={{ .X }}#{{ .X }}">x</a>',
    '<p title="{{ .X }}">{{ .X }}</p>',
    "<p title={{ .X }} class=a>y</p>",
    '<p style="color:{{ .X }}">y</p>',
    "<style>p { color: {{ .X }} }</style>",
    "<!-- {{ .X }} --><b>y</b>",
    "<textarea>{{ .X }}</textarea>",
    '{{ if .X }}<p class="a{{ else }}<p class="b{{ end }}{{ .X }}">y</p>',
    "<img src='{{ .X }}'><br>{{ .X }}",
    "3 < 4 {{ .X }}",
]


class Seen(HTMLParser):
    """The tags, attributes' names and addresses that a reader of HTML sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src"}]


def shown(document: str, value: str) -> Seen:
    return Seen(LIBRARY.expand(LIBRARY.read(document), Struct({"X": value}), HtmlPlaces()))


def check(document: str, value: str) -> None:
    seen = shown(document, value)
    assert seen.tags == shown(document, "plain").tags
    for address in seen.addresses:
        scheme = "".join(address.split()).lower().partition(":")[0]
        assert scheme not in {"javascript", "data", "vbscript"}


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("value", EVIL)
def test_a_value_adds_no_tag_no_attribute_and_no_script(document: str, value: str) -> None:
    check(document, value)


@given(
    st.sampled_from(DOCUMENTS),
    st.lists(st.sampled_from([*EVIL, '"', "'", "<", ">", "=", " ", "/", ":", "&", "on", "\n"])),
)
@settings(max_examples=400, deadline=None)
def test_no_mixture_of_them_does_either(document: str, parts: list[str]) -> None:
    check(document, "".join(parts) or "plain")


@pytest.mark.parametrize(
    "document",
    [
        "<script>var x = '{{ .X }}'</script>",
        '<p onclick="f({{ .X }})">',
        "<{{ .X }}>",
        "<h{{ .X }}>",
        "<p {{ .X }}>",
        "<iframe srcdoc='{{ .X }}'></iframe>",
    ],
)
def test_some_places_take_no_value(document: str) -> None:
    with pytest.raises(TemplateError, match="a value cannot"):
        shown(document, "plain")


def test_what_an_author_calls_safe_is_printed_as_it_is() -> None:
    text = LIBRARY.read('<p>{{ "<b>" | safeHtml }}</p><a href="{{ "tel:1" | safeUrl }}">x</a>')
    printed = LIBRARY.expand(text, Struct({}), HtmlPlaces())
    assert printed == '<p><b></p><a href="tel:1">x</a>'
