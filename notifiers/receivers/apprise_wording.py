"""What an apprise service is sent: a receiver's own templates, or the built-in message."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.config.message_templates import MessageTemplate
from notifiers.messages.escaped import ChatText, MarkdownText, calling_nobody
from notifiers.messages.hypertext import MAX_HTML_BYTES, html
from notifiers.messages.order import number_of
from notifiers.messages.templated import WordingError, in_trouble, line_of, text_of
from notifiers.receivers.apprise_limits import (
    fits,
    fitted_text,
    fitted_title,
    limit_of,
    shortened_title,
)
from rules.slotted import dataclass, field, replace
from rules.templates.html_places import HtmlPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from notifiers.notification import Notification
    from rules.templates.machine import Printed

Format: TypeAlias = Literal["text", "html", "markdown"]


class _ChatHtml(HtmlPlaces):
    """HTML that a chat makes text of again, in which a value calls nobody either."""

    def value(self, value: Any, text: str) -> str:
        """See HtmlPlaces."""
        return HtmlPlaces.value(self, value, calling_nobody(text))


_PRINTED: Mapping[Format, Callable[[], Printed]] = {
    "text": ChatText,
    "html": _ChatHtml,
    "markdown": MarkdownText,
}


@dataclass(frozen=True, slots=True)
class Written:
    """A message as apprise is given it.

    `shown`: how many alerts stand in it. `failed`: it is the built-in one, for a template's fault.
    """

    title: str
    body: str
    format: Format
    shown: int
    headers: Mapping[str, str] = field(default_factory=dict)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Wording:
    """A receiver's own templates; an empty one leaves the built-in text.

    `format`: the markup of `text`. `headers` are a mail's.
    """

    title: MessageTemplate = field(default_factory=MessageTemplate)
    text: MessageTemplate = field(default_factory=MessageTemplate)
    format: Format = "text"
    headers: Mapping[str, MessageTemplate] = field(default_factory=dict)

    def written(
        self, service: Any, notification: Notification, receiver: str, *, mail: bool
    ) -> Written:
        """The message. A template that fails costs nobody the message: it is the built-in one."""
        try:
            return self._own(service, notification, mail=mail)
        except WordingError as error:
            notification = in_trouble(notification, error, receiver)
        builtin = Wording()._own(service, notification, mail=mail)  # noqa: SLF001 - of its own class
        return replace(builtin, failed=True)

    def _own(self, service: Any, notification: Notification, *, mail: bool) -> Written:
        headers = {
            name: line_of(f"headers: {name}", template, notification)
            for name, template in self.headers.items()
        }
        if self.title:
            title = line_of("title", self.title, notification, ChatText)
            title = shortened_title(service, title, number_of(notification))
        else:
            title = fitted_title(service, notification)
        if mail:
            return self._mail(title, notification, headers)
        if not self.text:
            body = fitted_text(service, notification, title)
            return Written(title, body.text, "text", body.shown)
        body = text_of(
            "text",
            self.text,
            notification,
            _PRINTED[self.format],
            partial(fits, service, title, self.format),
            cuttable=limit_of(service) if self.format == "text" else 0,
        )
        return Written(title, body.text, self.format, body.shown)

    def _mail(self, title: str, notification: Notification, headers: Mapping[str, str]) -> Written:
        if not self.text:
            return Written(title, html(notification), "html", len(notification.alerts), headers)
        body = text_of(
            "html" if self.format == "html" else "text",
            self.text,
            notification,
            HtmlPlaces if self.format == "html" else ChatText,
            lambda text: len(text.encode()) <= MAX_HTML_BYTES,
            below=_below if self.format == "html" else None,
            cuttable=MAX_HTML_BYTES if self.format == "text" else 0,
        )
        return Written(title, body.text, self.format, body.shown, headers)


def _below(document: str, line: str) -> str:
    """A paragraph at the end of an HTML document."""
    end = document.lower().rfind("</body>")
    place = end if end >= 0 else len(document)
    return f"{document[:place]}<p>{line}</p>{document[place:]}"
