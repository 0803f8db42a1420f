"""`apprise_configs`: any URL that apprise speaks (chats, mail, push services).

apprise answers for all targets of a URL with one bool, so each target is called by itself: a
retry must not repeat the message to those that have it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, SecretStr, field_validator

from engine.config.message_templates import MessageTemplate
from notifiers.messages.parting import Progress, part
from notifiers.receivers.apprise_answers import answers, check
from notifiers.receivers.apprise_incidents import close, closes_itself, scheme_of, tie
from notifiers.receivers.apprise_log import captured, explain, redact, secrets_of
from notifiers.receivers.apprise_picture import attached, checked_picture
from notifiers.receivers.apprise_wording import Format, Wording
from notifiers.receivers.receiver import MaxMessages, ReceiverSettings, SendError
from rules.templates.jinja import one_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert
    from notifiers.notification import Notification
    from notifiers.pictures.picture import Pictures
    from notifiers.receivers.receiver import Target

ID_HEADER = "X-Stallwatch-Id"
# Where apprise's services keep the list of those they tell.
_TARGET_LISTS = ("targets", "channels")


class AppriseConfig(ReceiverSettings):
    """`url` as apprise writes them, `slack://TokenA/TokenB/TokenC/#channel`; all of it secret.

    `title` and `text` in the place of the built-in message; `format`: the markup in `text`.
    `max_messages`: into how many a group may be split. `picture`: the last hour goes along.
    """

    url: SecretStr
    title: MessageTemplate = MessageTemplate()
    text: MessageTemplate = MessageTemplate()
    format: Format = "text"
    max_messages: MaxMessages = 1
    picture: bool = False

    @field_validator("picture")
    @classmethod
    def _can_be_drawn(cls, picture: bool) -> bool:
        return checked_picture(picture)

    @field_validator("url")
    @classmethod
    def _is_known(cls, url: SecretStr) -> SecretStr:
        text = url.get_secret_value()
        if "://" not in text:
            raise ValueError("expected an apprise URL such as slack://... or mailto://...")
        with captured() as lines:
            service = _instantiate(text)
        if service is None:
            told = redact("; ".join(line for _, line in lines[-1:]), secrets_of(text))
            raise ValueError(f"apprise cannot use this URL{': ' + told if told else ''}")
        return url


class AppriseReceiver:
    """One apprise URL, split into its targets."""

    Config: ClassVar[type[BaseModel]] = AppriseConfig

    def __init__(self, config: AppriseConfig) -> None:
        self.send_resolved = config.send_resolved
        wording = Wording(config.title, config.text, config.format)
        self._targets = split(config.url.get_secret_value(), wording, config.max_messages)
        for target in self._targets:
            target.wants_picture = config.picture

    def targets(self) -> Sequence[Target]:
        """One per channel or address."""
        return self._targets


class AppriseTarget:
    """One target of an apprise URL: element `index` of the service's own list, None for all."""

    def __init__(
        self,
        url: str,
        label: str,
        index: int | None = None,
        wording: Wording | None = None,
        most_messages: int = 1,
    ) -> None:
        self.label = label
        self.template_failures = 0
        self.wants_picture = False
        # Set by who knows where the agent listens.
        self.pictures: Pictures | None = None
        self._most_messages = most_messages
        self._progress = Progress()
        self._wording = Wording() if wording is None else wording
        self._url = url
        self._index = index
        self._secrets = secrets_of(url)

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Send as HTML (mail) or text. Raises SendError with apprise's own words."""
        with one_message():
            for one in self._progress.left(notification, lambda: self._parts(notification)):
                self._send_one(one, timeout_seconds)

    def _parts(self, notification: Notification) -> tuple[tuple[Alert, ...], ...]:
        with captured():
            service = self._service()
        # An incident is one, and its text is only its latest word.
        most = 1 if hasattr(service, "action") or _is_mail(service) else self._most_messages
        write = partial(self._wording.written, service, receiver=self.label, mail=False)
        return part(notification, most, lambda one: write(one).shown)

    def _service(self, timeout_seconds: float = 10.0) -> Any:
        service = _instantiate(self._url, timeout_seconds)
        if service is None:
            raise SendError("configuration", "apprise cannot use this URL", permanent=True)
        if self._index is not None:
            _narrow(service, self._index)
        return service

    def _send_one(self, notification: Notification, timeout_seconds: float) -> None:
        from apprise import Apprise, NotifyFormat, NotifyType

        with captured() as lines, answers() as answered:
            service = self._service(timeout_seconds)
            mail = _is_mail(service)
            if mail:
                service.headers[ID_HEADER] = notification.id
            tie(service, notification)
            written = self._wording.written(service, notification, self.label, mail=mail)
            self.template_failures += written.failed
            if mail:
                service.headers.update(written.headers)
            if closes_itself(service, notification):
                close(service, written.body, timeout_seconds)
                return
            sender = Apprise(asset=service.asset)
            sender.add(service)
            kind = NotifyType.FAILURE if notification.status == "firing" else NotifyType.SUCCESS
            # A mail is one with its picture. Elsewhere the picture is a call of its own, which must
            # not make a message that was taken look as if it were not.
            picture = self._picture(notification) if mail else None
            if picture is not None and hasattr(service, "inline"):
                service.inline = True
            taken = sender.notify(
                title=written.title,
                body=written.body,
                body_format=NotifyFormat(written.format),
                notify_type=kind,
                attach=None if picture is None else attached(picture),
            )
        check(answered, scheme_of(service))
        if not taken:
            raise explain(lines, self._secrets)
        number, total = notification.part
        if not mail and number == total:
            self._add_picture(service, sender, notification, kind)

    def _picture(self, notification: Notification) -> bytes | None:
        if self.pictures is None:
            return None
        # Apart: what the agent answers is no answer of the service.
        with answers():
            return self.pictures.of_notification(notification)

    def _add_picture(
        self, service: Any, sender: Any, notification: Notification, kind: Any
    ) -> None:
        """Send the picture behind its message, if the service takes one; once, whatever comes."""
        if self.pictures is None or not service.attachment_support:
            return
        picture = self._picture(notification)
        if picture is None:
            return
        try:
            with captured(), answers() as answered:
                taken = sender.notify(body="", notify_type=kind, attach=attached(picture))
            check(answered, scheme_of(service))
        except SendError as error:
            self.pictures.fault(str(error))
        else:
            if not taken:
                self.pictures.fault("the service did not take it")


def split(
    url: str, wording: Wording | None = None, most_messages: int = 1
) -> tuple[AppriseTarget, ...]:
    """The targets of a URL. Raises ValueError when apprise does not know it."""
    with captured():
        service = _instantiate(url)
    if service is None:
        raise ValueError("apprise cannot use this URL")
    name = str(service.service_name)
    listed = _listed(service)
    if listed is None or len(listed) < 2:
        return (AppriseTarget(url, name, None, wording, most_messages),)
    mail = _is_mail(service)
    return tuple(
        AppriseTarget(
            url,
            str(one[-1]) if mail else f"{name} target {index + 1}",
            index,
            wording,
            most_messages,
        )
        for index, one in enumerate(listed)
    )


def _instantiate(url: str, timeout_seconds: float = 10.0) -> Any:
    """The service of a URL, or None."""
    from apprise import Apprise, AppriseAsset

    # Without an image: it would be fetched from a server that is not ours.
    asset = AppriseAsset(
        app_id="stallwatch", app_desc="stallwatch", plugin_paths=[], image_url_mask=""
    )
    # The worker is patient enough: a send that apprise abandons half-way might still arrive, and
    # then again with the next attempt.
    asset._service_timeout = 0  # noqa: SLF001 - there is no public way
    service = Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if service is not None:
        service.socket_connect_timeout = timeout_seconds
        service.socket_read_timeout = timeout_seconds
        service.request_rate_per_sec = 0
    return service


def _is_mail(service: Any) -> bool:
    return str(service.secure_protocol) == "mailtos" or "mailtos" in service.secure_protocol


def _listed(service: Any) -> list[Any] | None:
    for name in _TARGET_LISTS:
        listed = getattr(service, name, None)
        if isinstance(listed, list):
            return listed
    return None


def _narrow(service: Any, index: int) -> None:
    for name in _TARGET_LISTS:
        listed = getattr(service, name, None)
        if isinstance(listed, list):
            setattr(service, name, listed[index : index + 1])
            return
