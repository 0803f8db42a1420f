"""A receiver of one URL, which is its own, only target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from notifiers.receivers.http_config import open_session
from notifiers.receivers.http_post import host_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notifiers.notification import Notification
    from notifiers.receivers.http_config import HttpConfig
    from notifiers.receivers.receiver import Target


class SingleUrlReceiver(ABC):
    """Keeps the URL and a session for it. All of the URL may be a secret."""

    def __init__(self, url: str, http_config: HttpConfig) -> None:
        self._url = url
        self._session = open_session(http_config)

    @property
    def label(self) -> str:
        """Scheme and host: a path or query may be a secret."""
        return host_of(self._url)

    def targets(self) -> Sequence[Target]:
        """Itself."""
        return (self,)

    @abstractmethod
    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """See Target."""
