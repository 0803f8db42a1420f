"""`email_configs`, in Alertmanager's spelling, sent by apprise as text and HTML."""

from __future__ import annotations

import contextlib
import logging
import re
from email.utils import getaddresses
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, Field, SecretStr, field_validator

from engine.config.message_templates import MessageTemplate
from notifiers.receivers.apprise import AppriseTarget
from notifiers.receivers.apprise_picture import checked_picture
from notifiers.receivers.apprise_wording import Wording
from notifiers.receivers.receiver import ReceiverSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notifiers.receivers.receiver import Target

logger = logging.getLogger(__name__)

IMPLICIT_TLS_PORT = "465"
_STAND_IN = "stallwatch@example.com"
# An address of RFC 5321 as plain SMTP carries it: the host may be one word or a literal.
_ADDRESS = re.compile(
    r"""[^\s@"<>(),:;\\\[\]]+@(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9])?\.?|\[[a-z0-9.:]+\])""",
    re.ASCII | re.IGNORECASE,
)
_HEADER = re.compile(r"[A-Za-z0-9-]{1,80}", re.ASCII)
# What says whose a mail is and how it is built.
_MADE_HERE = frozenset({
    "from", "to", "cc", "bcc", "date", "message-id", "mime-version", "content-type",
    "content-transfer-encoding", "x-stallwatch-id",
})  # fmt: skip


class EmailConfig(ReceiverSettings):
    """`to` may list several addresses; each gets a message, an order and retries of its own.

    `html` or `text` in the place of the built-in message; a mail's text part is made of its HTML.
    `picture`: the last hour stands in it.
    """

    to: str
    sender: str = Field(alias="from")
    smarthost: str
    hello: str = ""
    auth_username: str = ""
    auth_password: SecretStr | None = None
    require_tls: bool = True
    headers: dict[str, MessageTemplate] = Field(default_factory=dict)
    html: MessageTemplate = MessageTemplate()
    text: MessageTemplate = MessageTemplate()
    picture: bool = False

    @field_validator("picture")
    @classmethod
    def _can_be_drawn(cls, picture: bool) -> bool:
        return checked_picture(picture)

    @field_validator("headers")
    @classmethod
    def _has_names(cls, headers: dict[str, MessageTemplate]) -> dict[str, MessageTemplate]:
        if not all(_HEADER.fullmatch(name) for name in headers):
            raise ValueError("expected names of headers, such as Subject or X-Team")
        return headers

    @field_validator("smarthost")
    @classmethod
    def _has_port(cls, smarthost: str) -> str:
        host, _, port = smarthost.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("expected host:port, such as smtp.example.com:587")
        return smarthost

    @field_validator("to", "sender")
    @classmethod
    def _has_addresses(cls, text: str) -> str:
        found = getaddresses([text])
        if not found or not all("@" in address for _, address in found) or "\n" in text:
            raise ValueError("expected mail addresses, such as oncall@example.com")
        for _, address in found:
            _refuse_unusual(address)
        return text

    def recipients(self) -> tuple[str, ...]:
        """The addresses in `to`, each once."""
        return tuple(dict.fromkeys(address for _, address in getaddresses([self.to])))

    def wording(self) -> Wording:
        """Its templates. Of two bodies the HTML is sent, as it holds the text."""
        own = {name: one for name, one in self.headers.items() if name.lower() not in _MADE_HERE}
        subject = next((own.pop(name) for name in [*own] if name.lower() == "subject"), None)
        title = MessageTemplate() if subject is None else subject
        if self.html or not self.text:
            return Wording(title, self.html, "html", own)
        return Wording(title, self.text, "text", own)

    def author(self) -> tuple[str, str]:
        """The name, which may be empty, and the address in `from`."""
        return getaddresses([self.sender])[0]

    def apprise_url(self) -> str:
        """The mail server as apprise spells it; whose the mail is MailTarget says."""
        host, _, port = self.smarthost.rpartition(":")
        login = ""
        if self.auth_username:
            login = quote(self.auth_username, safe="")
            if self.auth_password is not None:
                login += ":" + quote(self.auth_password.get_secret_value(), safe="")
            login += "@"
        mode = "insecure"
        if port == IMPLICIT_TLS_PORT:
            mode = "ssl"
        elif self.require_tls:
            mode = "starttls"
        schema = "mailto" if mode == "insecure" else "mailtos"
        asked = urlencode({"from": _STAND_IN, "to": _STAND_IN, "smtp": host, "mode": mode})
        return f"{schema}://{login}{host}:{port}/?{asked}"


def _refuse_unusual(address: str) -> None:
    """Raise ValueError, with the address and the mend, for what SMTP does not carry as it is."""
    if address.isascii() and _ADDRESS.fullmatch(address):
        return
    mailbox, _, host = address.rpartition("@")
    hint = "expected NAME@HOST, such as oncall@example.com"
    if not mailbox.isascii():
        hint = "what stands before the @ must be ASCII; give an alias of the mailbox that is"
    elif not host.isascii():
        hint = "write the host as DNS knows it, in ASCII (xn--...)"
        with contextlib.suppress(UnicodeError):
            hint = f"write it as DNS knows it: {mailbox}@{host.encode('idna').decode()}"
    raise ValueError(f"mail cannot be sent with the address '{address}'; {hint}")


class MailTarget(AppriseTarget):
    """One recipient.

    Apprise sends to any address, but its URLs hold only those whose host looks public: neither
    `oncall@mail` nor `a@b.c`. So the URL holds stand-ins, and the service gets the addresses.
    """

    def __init__(
        self, url: str, author: tuple[str, str], recipient: str, wording: Wording | None = None
    ) -> None:
        super().__init__(url, recipient, None, wording)
        self._author = author
        self._recipient = recipient

    def _service(self, timeout_seconds: float = 10.0) -> Any:
        service = super()._service(timeout_seconds)
        name, address = self._author
        service.from_addr = (name or False, address)
        service.names = {address: name or False}
        service.targets = [(False, self._recipient)]
        return service


class EmailReceiver:
    """One mail server, one target per address."""

    Config: ClassVar[type[BaseModel]] = EmailConfig

    def __init__(self, config: EmailConfig) -> None:
        self.send_resolved = config.send_resolved
        self._config = config
        if config.hello:
            logger.warning("email_configs: 'hello' has no effect; the host's own name is used")
        for name in config.headers:
            if name.lower() in _MADE_HERE:
                logger.warning("email_configs: the header '%s' has no effect", name)

    def targets(self) -> Sequence[Target]:
        """One per address in `to`."""
        wording = self._config.wording()
        url, author = self._config.apprise_url(), self._config.author()
        found = [
            MailTarget(url, author, recipient, wording) for recipient in self._config.recipients()
        ]
        for target in found:
            target.wants_picture = self._config.picture
        return found
