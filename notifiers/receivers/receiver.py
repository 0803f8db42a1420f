"""What delivery asks of a receiver, and how a receiver says that it could not send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from engine.config.quantities import Interval, PositiveDuration
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from notifiers.notification import Notification


class SendError(StallwatchError):
    """A notification was not taken.

    `reason` is one stable word (a metric's label); the text says more and holds no secret.
    `permanent`: sending the same again cannot help. `retry_after_seconds`: when the receiver
    asked to be left alone.
    """

    def __init__(
        self,
        reason: str,
        text: str,
        *,
        permanent: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.permanent = permanent
        self.retry_after_seconds = retry_after_seconds


class Target(Protocol):
    """One place that a message goes to. Used by one thread at a time."""

    @property
    def label(self) -> str:
        """A name for people, without secrets: a host, an address, a channel."""
        ...

    def send(self, notification: Notification, timeout_seconds: float) -> None:
        """Hand the notification over; returns when the other side has taken it.

        Raises SendError.
        """
        ...


class Receiver(Protocol):
    """A kind of receiver, set up from one entry of its `..._configs` list.

    Each target gets its own thread, order and retries, so that one that fails never makes
    another hear twice.
    """

    Config: ClassVar[type[BaseModel]]
    send_resolved: bool

    def targets(self) -> Sequence[Target]:
        """The places that this entry names, at least one."""
        ...


# Into how many messages a group may be split where one has no room for all of its alerts.
MaxMessages: TypeAlias = Annotated[int, Field(ge=1, le=20)]


class ReceiverSettings(BaseModel):
    """The settings that every receiver has.

    `send_resolved` is on everywhere, unlike Alertmanager's for mail and Slack: who was woken is
    told that it is over. `timeout` bounds one attempt; what is older than `max_retry_age` is
    given up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    send_resolved: bool = True
    timeout: PositiveDuration = Interval(10_000)
    max_retry_age: PositiveDuration = Interval(86_400_000)
