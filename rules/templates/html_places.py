"""Values in HTML: each is made safe for the place where the template's author puts it.

The author's own text is followed as a browser reads it, so that a value in a tag's attribute is
escaped otherwise than one between tags. Places where no escaping is safe take no value: a script,
an event handler, the name of a tag or of an attribute. The idea is that of Go's html/template
(https://pkg.go.dev/html/template, "Contexts"), which Alertmanager writes its mails with.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from rules.slotted import dataclass
from rules.templates.errors import TemplateError
from rules.templates.escaping import escape_html
from rules.templates.values import Html, Url

# What stands in the place of an address that a browser would run, and of a style that is none.
UNSAFE_URL = "#unsafe"
UNSAFE_STYLE = "unsafe"
_ADDRESSES = frozenset({
    "action", "archive", "background", "cite", "classid", "codebase", "data", "formaction", "href",
    "icon", "longdesc", "manifest", "ping", "poster", "profile", "src", "srcset", "usemap",
    "xlink:href", "xmlns",
})  # fmt: skip
# A document of its own in an attribute.
_DOCUMENTS = frozenset({"srcdoc"})
# Whose text is not HTML: a browser looks for nothing but their end.
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noscript"})
_SCHEME = re.compile(r"[^/?#]*:")
_FOLLOWED = re.compile(r"(?:https?|mailto|tel):", re.IGNORECASE)
_STYLE = re.compile(r"[A-Za-z0-9 #%.,_-]*", re.ASCII)
_UNQUOTED = str.maketrans({char: f"&#{ord(char)};" for char in " \t\n\r\f\v=`"})
_NAME = re.compile(r"[^\s/>=\"']+")
_SPACES = " \t\n\r\f"


@dataclass(slots=True)
class HtmlPlaces:
    """`machine.Printed` for HTML. One serves one run.

    `where`: text, tag (between attributes), equals (a value is to come), value, comment, or raw.
    """

    where: str = "text"
    tag: str = ""
    attribute: str = ""
    quote: str = ""
    # Of the attribute's value, as far as it was printed.
    printed: str = ""
    pending: str = ""

    def literal(self, text: str) -> str:
        """The author's text, followed."""
        rest = self.pending + text
        self.pending = ""
        while rest:
            rest = getattr(self, f"_{self.where}")(rest)
        return text

    def value(self, value: Any, text: str) -> str:
        """A value's text as this place takes it. Raises TemplateError where none takes one."""
        match self.where:
            case "text" if self.pending:
                raise TemplateError("a value cannot be the name of a tag")
            case "text":
                return text if isinstance(value, Html) else escape_html(text)
            case "comment":
                return ""
            case "raw" if self.tag in {"title", "textarea"}:
                return escape_html(text)
            case "raw" if self.tag == "style":
                return text if _STYLE.fullmatch(text) else UNSAFE_STYLE
            case "raw":
                raise TemplateError(f"a value cannot stand in <{self.tag}>")
            case "tag":
                raise TemplateError("a value cannot be an attribute of a tag")
            case _:
                return self._in_attribute(value, text)

    def _in_attribute(self, value: Any, text: str) -> str:
        name = self.attribute
        if self.where == "equals":
            self.where, self.quote, self.printed = "value", "", ""
        if name.startswith("on") or name in _DOCUMENTS:
            raise TemplateError(f"a value cannot stand in '{name}', which a browser runs")
        if name == "style":
            shown = text if _STYLE.fullmatch(text) else UNSAFE_STYLE
        elif name in _ADDRESSES:
            shown = text if isinstance(value, Url) else self._address(text)
        else:
            shown = text
        self.printed += shown
        escaped = escape_html(shown)
        return escaped if self.quote else escaped.translate(_UNQUOTED)

    def _address(self, text: str) -> str:
        """Part of an address. What stands behind its `?` or `#` is one word of it."""
        if "?" in self.printed or "#" in self.printed:
            return quote(text, safe="")
        whole = (self.printed + text).strip()
        if _SCHEME.match(whole) and not _FOLLOWED.match(whole):
            return UNSAFE_URL
        return quote(text, safe="/:?#[]@!$&'()*+,;=%~")

    def _text(self, text: str) -> str:
        start = text.find("<")
        if start < 0:
            return ""
        rest = text[start + 1 :]
        if not rest or "!--".startswith(rest):
            self.pending = text[start:]
            return ""
        if rest.startswith("!--"):
            self.where = "comment"
            return rest[3:]
        if not re.match(r"[A-Za-z/!?]", rest):
            return rest
        name = _NAME.match(rest[1:] if rest[0] in "/!?" else rest)
        closing = "/" if rest[0] in "/!?" else ""
        found = "" if name is None else name.group()
        self.tag = closing + found.lower()
        self.where = "tag"
        if len(closing) + len(found) == len(rest):
            # The name may go on behind an action.
            self.where, self.pending = "text", text[start:]
            return ""
        return rest[len(closing) + len(found) :]

    def _tag(self, text: str) -> str:
        rest = text.lstrip(f"{_SPACES}/")
        if not rest:
            return ""
        if rest[0] == ">":
            self.where = "raw" if self.tag in _RAW else "text"
            return rest[1:]
        found = _NAME.match(rest)
        if found is None:
            return rest[1:]
        self.attribute = found.group().lower()
        after = rest[found.end() :].lstrip(_SPACES)
        if after.startswith("="):
            self.where, self.printed = "equals", ""
            return after[1:]
        return after

    def _equals(self, text: str) -> str:
        rest = text.lstrip(_SPACES)
        if not rest:
            return ""
        if rest[0] == ">":
            self.where = "tag"
            return rest
        self.where, self.printed = "value", ""
        self.quote = rest[0] if rest[0] in "\"'" else ""
        return rest[1:] if self.quote else rest

    def _value(self, text: str) -> str:
        end = re.search(self.quote or r"[\s>]", text)
        if end is None:
            self.printed += text
            return ""
        self.where = "tag"
        return text[end.end() :] if self.quote else text[end.start() :]

    def _comment(self, text: str) -> str:
        end = text.find("-->")
        if end < 0:
            return ""
        self.where = "text"
        return text[end + 3 :]

    def _raw(self, text: str) -> str:
        end = re.search(f"</{re.escape(self.tag)}", text, re.IGNORECASE)
        if end is None:
            return ""
        self.where = "text"
        return text[end.start() :]
