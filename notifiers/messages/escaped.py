"""Values that templates print, made safe for where the message goes: chats and mail headers.

What the template's author wrote stays as it is, so that it can be markup; a label's value cannot.
"""

from __future__ import annotations

import re
from typing import Any

from notifiers.messages.folding import cut
from rules.templates.values import Html

# Discord's, Mattermost's, Feishu's and Slack's ways to call people out of plain text.
_CALL = re.compile(r"@(?=(?:everyone|here|channel|all)\b)|<(?=[@!]|at\b)", re.IGNORECASE)
_MARKDOWN = re.compile(r"[\\`*_{}\[\]()<>#+.!|~&-]")
_ENTITY = re.compile(r"&[a-z]*$")
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def calling_nobody(text: str) -> str:
    """The text with what wakes a whole channel taken apart: a label must not do that."""
    return _CALL.sub("\\g<0>\u200b", text)


def escaped_for_slack(text: str) -> str:
    """Text without links and mentions, which all begin with `<`."""
    return text.translate(_SLACK)


def cut_for_slack(text: str, limit: int) -> str:
    """At most `limit` bytes of mrkdwn, cut where neither a link nor an entity is open."""
    shown = cut(text, limit)
    if shown == text:
        return text
    whole = _ENTITY.sub("", shown.removesuffix("…"))
    start = whole.rfind("<")
    return f"{whole[:start] if start > whole.rfind('>') else whole}…"[: len(shown)]


class ChatText:
    """`machine.Printed` for a chat that has no markup, or escapes all of the text itself."""

    def literal(self, text: str) -> str:
        """As it was written."""
        return text

    def value(self, value: Any, text: str) -> str:  # noqa: ARG002 - Printed's
        """Calls nobody."""
        return calling_nobody(text)


class SlackText:
    """`machine.Printed` for Slack's mrkdwn (docs.slack.dev, "Formatting message text")."""

    def __init__(self) -> None:
        self._opened = False

    def literal(self, text: str) -> str:
        """As it was written: `<https://host|text>` is a link."""
        self._opened = text.endswith("<")
        return text

    def value(self, value: Any, text: str) -> str:
        """No link, no mention: those begin with `<`, the author's own one too."""
        opened, self._opened = self._opened, False
        if isinstance(value, Html):
            return text
        mention = opened and text.startswith(("!", "@", "#"))
        return ("\u200b" if mention else "") + calling_nobody(escaped_for_slack(text))


class MarkdownText:
    """`machine.Printed` for Markdown (CommonMark, "Backslash escapes")."""

    def literal(self, text: str) -> str:
        """As it was written."""
        return text

    def value(self, value: Any, text: str) -> str:
        """No markup, and nothing that HTML would take for some."""
        return text if isinstance(value, Html) else calling_nobody(_MARKDOWN.sub(r"\\\g<0>", text))
