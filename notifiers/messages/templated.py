"""A message in a receiver's own words: its templates, expanded and kept to a length."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.alerts.wording import inert
from notifiers.messages.folding import Assembled, cut, fold_line
from notifiers.messages.order import worst_first
from notifiers.messages.template_data import template_data, with_first
from rules.slotted import replace
from rules.templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.message_templates import MessageTemplate
    from notifiers.notification import Notification
    from rules.templates.machine import Printed

logger = logging.getLogger(__name__)

MAX_TROUBLE_CHARACTERS = 280
MAX_LINE_BYTES = 1_000


class WordingError(TemplateError):
    """A receiver's template failed. `setting`: which one."""

    def __init__(self, setting: str, error: TemplateError) -> None:
        super().__init__(error.message, error.span, error.hint)
        self.setting = setting


def line_of(
    setting: str,
    template: MessageTemplate,
    notification: Notification,
    printed: Callable[[], Printed] | None = None,
    cutter: Callable[[str, int], str] = cut,
) -> str:
    """A template that makes a title or a header. Raises WordingError."""
    try:
        text = template.expand(template_data(notification), None if printed is None else printed())
    except TemplateError as error:
        raise WordingError(setting, error) from None
    return cutter(inert(text, len(text) + 1), MAX_LINE_BYTES)


def text_of(
    setting: str,
    template: MessageTemplate,
    notification: Notification,
    printed: Callable[[], Printed],
    fits: Callable[[str], bool],
    *,
    below: Callable[[str, str], str] | None = None,
    cuttable: int = 0,
    cutter: Callable[[str, int], str] = cut,
) -> Assembled:
    """A template that makes a body. Raises WordingError.

    Where all alerts do not fit, the template sees the worst of them, and the others are counted
    below its text, by `below(text, line)`. Where not even one fits, the text is cut to `cuttable`
    bytes by `cutter`; 0: it is no text that can be cut, and so an error.
    """
    data = template_data(notification)
    alerts = worst_first(notification.alerts)

    def with_alerts(count: int) -> str:
        shown = template.expand(with_first(data, count), printed())
        if count >= len(alerts):
            return shown
        line = fold_line(alerts[count:])
        line = printed().value(line, line)
        return f"{shown}\n{line}" if below is None else below(shown, line)

    try:
        text = with_alerts(len(alerts))
        if fits(text):
            return Assembled(text, len(alerts))
        best = _most(with_alerts, len(alerts), fits)
        if best.shown:
            return best
        text = template.expand(with_first(data, 1), printed())
    except TemplateError as error:
        raise WordingError(setting, error) from None
    if not cuttable:
        raise WordingError(setting, TemplateError("it makes more than there is room for"))
    end = f"\nand {len(alerts) - 1} more" if len(alerts) > 1 else ""
    room = cuttable - len(end.encode())
    while room > 0 and not fits(cutter(text, room) + end):
        room = min(room - 1, room * 9 // 10)
    return Assembled(cutter(text, max(0, room)) + end, 1)


def _most(with_alerts: Callable[[int], str], total: int, fits: Callable[[str], bool]) -> Assembled:
    """The text of as many alerts as fit, found by halves; nothing where not even one does."""
    best = Assembled("", 0)
    low, high = 1, total - 1
    while low <= high:
        middle = (low + high) // 2
        text = with_alerts(middle)
        if fits(text):
            best, low = Assembled(text, middle), middle + 1
        else:
            high = middle - 1
    return best


def in_trouble(notification: Notification, error: WordingError, receiver: str) -> Notification:
    """The same notification, for the built-in message, which says why it is sent."""
    logger.warning("%s: the template of '%s' failed: %s", receiver, error.setting, error.message)
    why = f"The template of '{error.setting}' failed, so this is the built-in message: "
    return replace(notification, trouble=inert(why + error.message, MAX_TROUBLE_CHARACTERS))
