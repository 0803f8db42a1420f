"""A message as one of apprise's services takes it: how long, and calling nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from notifiers.messages.composition import compose
from notifiers.messages.escaped import calling_nobody
from notifiers.messages.folding import Assembled, cut
from notifiers.messages.order import number_of, subject
from notifiers.messages.plain import laid_out

if TYPE_CHECKING:
    from notifiers.notification import Notification

# Nobody reads more in a chat. It also keeps JSON, which may need two bytes for one of UTF-8, below
# the 20,000 bytes that some services take as a whole.
CHAT_BYTES = 9_900
# Block Kit: a section's text, a header's text (docs.slack.dev, "Blocks").
SLACK_SECTION_BYTES = 3_000
SLACK_HEADER_CHARACTERS = 150
# A line of its own joins title and body where a service has no titles.
_JOINT = 4
_SHORTEST = 40


def fitted_title(service: Any, notification: Notification) -> str:
    """The subject as far as the service's titles go; where it has none, half of the message."""
    title = calling_nobody(subject(notification))
    return shortened_title(service, title, number_of(notification))


def shortened_title(service: Any, title: str, end: str = "") -> str:
    """A title as far as the service's go, and `end`; where it has none, half of the message."""
    limit = SLACK_HEADER_CHARACTERS if _has_blocks(service) else int(service.title_maxlen)
    if limit <= 0:
        return cut(title, limit_of(service) // 2 - len(end)) + end
    limit -= len(end)
    return (title if len(title) <= limit else f"{title[: limit - 1]}…") + end


def fitted_text(service: Any, notification: Notification, title: str) -> Assembled:
    """The message without its subject, folded until what apprise makes of both fits.

    Services that take Markdown or HTML get text that is escaped, which makes it longer: so the
    length is that of what apprise would post.
    """
    limit = limit_of(service)
    message = compose(notification)
    room = limit - len(title.encode()) - _JOINT
    while room > _SHORTEST:
        laid = laid_out(message, room, titled=False)
        body = calling_nobody(laid.text)
        length = _posted_bytes(service, title, body)
        if length <= limit:
            return Assembled(body, laid.shown)
        # In proportion, and always by something.
        room = min(room - 1, int(min(room, len(body.encode())) * limit / length))
    # A title for a pager or a short message; all the rest would be half a word.
    return Assembled(cut(notification.id, max(1, room)), len(notification.alerts))


def limit_of(service: Any) -> int:
    """Bytes of UTF-8, title included."""
    if _has_blocks(service):
        return SLACK_SECTION_BYTES
    own = int(service.body_maxlen)
    return min(own, CHAT_BYTES) if own > 0 else CHAT_BYTES


def fits(service: Any, title: str, body_format: str, body: str) -> bool:
    """Whether what apprise makes of both is no longer than the service takes."""
    return _posted_bytes(service, title, body, body_format) <= limit_of(service)


def _has_blocks(service: Any) -> bool:
    return bool(getattr(service, "use_blocks", False))


def _posted_bytes(service: Any, title: str, body: str, body_format: str = "text") -> int:
    from apprise import NotifyFormat

    calls = list(
        service._build_send_calls(  # noqa: SLF001 - the public way sends
            body=body, title=title, body_format=NotifyFormat(body_format)
        )
    )
    return max(len(f"{call.get('title') or ''}{call['body']}".encode()) for call in calls)
