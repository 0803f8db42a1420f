"""Text made safe for HTML and JavaScript, as Go's text/template escapes it."""

from __future__ import annotations

from rules.templates.quoting import is_printable

_HTML = {
    "\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;",
}  # fmt: skip
_JS = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026",
    "=": "\\u003D",
}  # fmt: skip


def escape_html(text: str) -> str:
    """template.HTMLEscapeString."""
    return "".join(_HTML.get(char, char) for char in text)


def escape_js(text: str) -> str:
    """template.JSEscapeString."""
    return "".join(_js(char) for char in text)


def _js(char: str) -> str:
    if char in _JS:
        return _JS[char]
    if is_printable(char):
        return char
    return f"\\u{ord(char):04X}"
