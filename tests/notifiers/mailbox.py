"""A real SMTP server on loopback, and what arrived there."""

from __future__ import annotations

import socket
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Mailbox:
    """Keeps what arrives; answers `refusals[recipient]` instead of taking it."""

    def __init__(self) -> None:
        self.envelopes: list[Any] = []
        self.refusals: dict[str, str] = {}

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.envelopes.append(envelope)
        return "250 OK"

    def messages(self) -> list[Any]:
        return [message_from_bytes(one.content, policy=policy.default) for one in self.envelopes]


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def serve_mail(mailbox: Mailbox) -> Iterator[Callable[..., str]]:
    controllers = []

    def serve(**settings: Any) -> str:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        controller = Controller(mailbox, hostname="127.0.0.1", port=port, **settings)
        controller.start()
        controllers.append(controller)
        return f"127.0.0.1:{port}"

    yield serve
    for controller in controllers:
        controller.stop()


def settings(where: str, **changes: Any) -> dict[str, Any]:
    return {
        "to": "Oncall <oncall@example.com>",
        "from": "Stallwatch <stallwatch@example.com>",
        "smarthost": where,
        "require_tls": False,
    } | changes
