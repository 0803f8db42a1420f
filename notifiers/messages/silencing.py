"""The command with which a reader silences the group of a message."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from engine.alerts.wording import MAX_VALUE_CHARACTERS, inert
from engine.labels import quote

if TYPE_CHECKING:
    from notifiers.notification import Notification

# What neither a shell nor the parser of matchers takes for more than text.
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
MAX_COMMAND_CHARACTERS = 600


def silence_command(notification: Notification) -> str:
    """`stallwatch silence add alertname="TcpRetransmitSpike" task_id="slurm:7.0"`, or "".

    Safe to paste into a shell. The matchers are the group's labels, or those that all alerts
    share where the group has none; external labels are left out, as every alert of the node has
    them. "" where a label cannot be written: a silence must not be wider than its reader thinks.
    """
    labels = dict(notification.group_labels) or _shared(notification)
    external = notification.origin.external_labels
    labels = {name: value for name, value in labels.items() if external.get(name) != value}
    if not labels or not all(_writable(*pair) for pair in labels.items()):
        return ""
    order = sorted(labels, key=lambda name: (name != "alertname", name))
    matchers = [_matcher(name, labels[name]) for name in order]
    # A silence needs a comment; who wonders about it later finds the message by its id.
    comment = shlex.quote(f"message {inert(notification.id, 64)}")
    command = " ".join(["stallwatch silence add", *matchers, f"--comment {comment}"])
    return command if len(command) <= MAX_COMMAND_CHARACTERS else ""


def _shared(notification: Notification) -> dict[str, str]:
    first, *others = notification.alerts
    return {
        name: value
        for name, value in first.labels
        if all(other.labels.get(name) == value for other in others)
    }


def _writable(name: str, value: str) -> bool:
    return bool(_NAME.fullmatch(name)) and inert(value, MAX_VALUE_CHARACTERS) == value


def _matcher(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return f'{name}="{value}"'
    return shlex.quote(f"{name}={quote(value)}")
