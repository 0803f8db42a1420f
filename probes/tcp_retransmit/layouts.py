"""Which tracepoints this kernel has, with their layouts, and what is lost where one is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from probes.bpf.errors import UnavailableError
from probes.bpf.tracepoint import Format, read_format

_SKB_FIELDS = ("skaddr", "sport", "dport", "saddr_v6", "daddr_v6")
_ENDPOINTS = ("sport", "dport", "saddr_v6", "daddr_v6")


@dataclass(frozen=True, slots=True)
class Optional:
    """A tracepoint that can be done without. `needs`: a program without which it is of no use."""

    category: str
    event: str
    program: str
    prefix: str
    fields: tuple[str, ...]
    without: str
    needs: str = ""


OPTIONAL = (
    Optional(
        "sock",
        "inet_sock_set_state",
        "on_state",
        "STATE",
        ("skaddr", "oldstate", "newstate", "protocol", *_ENDPOINTS),
        "owners through sock_diag only, no connect times",
    ),
    # Sends teach who owns an accepted socket; receives would only double the cost. Without on_state
    # nothing would ever forget a socket.
    Optional(
        "sock",
        "sock_send_length",
        "on_send",
        "SEND",
        ("sk", "protocol", "ret"),
        "accepted sockets through sock_diag",
        "on_state",
    ),
    Optional(
        "tcp",
        "tcp_receive_reset",
        "on_receive_reset",
        "RESET",
        ("skaddr", *_ENDPOINTS),
        "no resets received, refused connects are not told from others",
        "on_state",
    ),
    Optional(
        "tcp",
        "tcp_send_reset",
        "on_send_reset",
        "SENT_RESET",
        ("skaddr", "state"),
        "no resets sent",
        "on_state",
    ),
    Optional(
        "sock",
        "inet_sk_error_report",
        "on_error",
        "ERROR",
        ("error", "protocol", *_ENDPOINTS),
        "failed connects: refused, no port, or other",
        "on_state",
    ),
    Optional(
        "tcp",
        "tcp_cong_state_set",
        "on_congestion",
        "CONGESTION",
        ("skaddr", "cong_state"),
        "tail-loss probes are not told from other retransmits",
        "on_state",
    ),
)


@dataclass(slots=True)
class Layouts:
    """`defines` for the program; `points`: (category, event) of each program; `notes` on what is
    missing.
    """  # noqa: D205 - one sentence

    defines: dict[str, int] = field(default_factory=dict)
    points: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_layouts() -> Layouts:
    """Look at the running kernel. Raises UnavailableError when retransmits have no tracepoint."""
    retransmit = read_format("tcp", "tcp_retransmit_skb")
    retransmit.require(*_SKB_FIELDS)
    found = Layouts(
        retransmit.defines("SKB", (*_SKB_FIELDS, "err")),
        {("tcp", "tcp_retransmit_skb"): "on_retransmit"},
    )
    for each in OPTIONAL:
        if each.needs and each.needs not in found.points.values():
            continue
        layout = _format_or_none(each)
        if layout is None:
            found.notes.append(f"no {each.category}:{each.event}: {each.without}")
            continue
        found.points[each.category, each.event] = each.program
        found.defines |= layout.defines(each.prefix, each.fields)
    return found


def _format_or_none(each: Optional) -> Format | None:
    try:
        found = read_format(each.category, each.event)
        found.require(*each.fields)
    except UnavailableError as error:
        if error.reason != "no_tracepoint":
            raise
        return None
    return found
