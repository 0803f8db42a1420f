"""What a message says, before it is text or HTML: said once for the group, and once per alert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from engine.alerts.wording import CONNECTION_FIELDS, cell, connection, inert, process
from engine.timestamps import format_rfc3339
from notifiers.dispatch.flapping import ANNOTATION as FLAPPING
from notifiers.dispatch.limiting import ANNOTATION as HELD_BACK
from notifiers.messages.facing import GIVES_BACK, KEEPS_BACK, facing
from notifiers.messages.order import subject, worst_first
from notifiers.messages.silencing import silence_command
from notifiers.notification import status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.alerts.alert import Alert, EvidenceEntry
    from notifiers.notification import Notification, Status
    from notifiers.origin import Origin

MAX_NOTE_CHARACTERS = 2000
MAX_NOTE_LINES = 30
MAX_ROWS = 10
MAX_LABELS = 20
MAX_ANNOTATIONS = 20
# Said in the message's own lines, so not repeated among the labels.
_PLACED = ("alertname", "task_id", "node", "rank", "cluster")
_SHOWN = CONNECTION_FIELDS | {"retransmits", "first", "last"}
# Each alert's own even where two alerts agree by chance.
_MEASURED = frozenset({"Ranks", "Value", "Tier 1", KEEPS_BACK, GIVES_BACK, "Since", "Fired",
                       "Resolved", "Flapping"})  # fmt: skip

Facts: TypeAlias = tuple[tuple[str, str], ...]
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, column names and rows, every cell inert; `folded` more rows are not shown."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What is said of one alert alone; `facts` are (name, value), `notes` may have lines."""

    alert: Alert
    status: Status
    heading: str
    notes: tuple[str, ...]
    facts: Facts

    @property
    def tables(self) -> tuple[Table, ...]:
        """The evidence."""
        return tuple(_tables(self.alert.evidence))

    def fact(self, name: str) -> str:
        """The value of a fact, "" when it is not among them."""
        return next((value for own, value in self.facts if own == name), "")


@dataclass(frozen=True, slots=True)
class Message:
    """`notes` and `facts` hold for all `parts`, which come worst first.

    With one alert everything is in its part. `notice`: a possible repeat, what failed, or "".
    `silence`: a command, or "".
    """

    title: str
    notice: str
    notes: tuple[str, ...]
    facts: Facts
    parts: tuple[Part, ...]
    silence: str
    footer: str

    @property
    def grouped(self) -> bool:
        """Whether there is more than one alert."""
        return len(self.parts) > 1


def compose(notification: Notification) -> Message:
    """Choose what to say, in the order in which one asks."""
    alerts = worst_first(notification.alerts)
    notes = [_notes(alert) for alert in alerts]
    facts = [_facts(alert, notification.origin) for alert in alerts]
    labels = [_rest(alert) for alert in alerts]
    shared_notes: tuple[str, ...] = ()
    shared_facts: Facts = ()
    shared_labels: Facts = ()
    if len(alerts) > 1:
        shared_notes = _shared(notes)
        shared_facts = tuple(fact for fact in _shared(facts) if fact[0] not in _MEASURED)
        shared_labels = _shared(labels)
    return Message(
        title=subject(notification),
        notice=_notice(notification),
        notes=shared_notes,
        facts=(*shared_facts, *_labels(shared_labels)),
        parts=tuple(
            Part(
                alert,
                status_of(alert),
                _heading(alert, shared_facts),
                _without(notes[place], shared_notes),
                (
                    *_without(facts[place], shared_facts),
                    *_labels(_without(labels[place], shared_labels)),
                ),
            )
            for place, alert in enumerate(alerts)
        ),
        silence=silence_command(notification),
        footer=_footer(notification),
    )


def _notice(notification: Notification) -> str:
    notices = [inert(notification.trouble)] if notification.trouble else []
    if notification.possible_repeat:
        notices.append(f"This may be a repeat: then you have message {notification.id} already.")
    return " ".join(notices)


def _footer(notification: Notification) -> str:
    """Which message it is and, of a group, why it is told now."""
    why = f" ({inert(notification.reason, 60)})" if notification.reason else ""
    return f"stallwatch, message {notification.id}{why}"


def _facts(alert: Alert, origin: Origin) -> Facts:
    annotations = dict(alert.annotations)
    for placed in ("summary", "description"):
        annotations.pop(placed, None)
    runbook = annotations.pop("runbook_url", "") or annotations.pop("runbook", "")
    facts = [
        ("Task", alert.labels.get("task_id")),
        ("Node", alert.labels.get("node") or origin.node),
        ("Cluster", alert.labels.get("cluster") or origin.cluster),
        ("Ranks", _ranks(alert)),
        ("Value", f"{alert.value:.6g}"),
        ("Tier 1", _tier_one(alert)),
        *facing(alert),
        ("Since", format_rfc3339(alert.active_at_ms)),
        ("Fired", _moment(alert.fired_at_ms)),
        ("Resolved", _moment(alert.resolved_at_ms)),
        ("Flapping", annotations.pop(FLAPPING, "")),
        ("Held back", annotations.pop(HELD_BACK, "")),
        ("Runbook", runbook),
        *sorted(_worded(annotations))[:MAX_ANNOTATIONS],
    ]
    return tuple((inert(name, 60), inert(value)) for name, value in facts if value)


def _worded(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those that are meant for people, and not for stallwatch."""
    return [pair for pair in annotations.items() if not pair[0].startswith("stallwatch_")]


def _notes(alert: Alert) -> tuple[str, ...]:
    notes = (alert.annotations.get(name, "") for name in ("summary", "description"))
    return tuple(_note(note) for note in notes if note.strip())


def _note(note: str) -> str:
    """An annotation's own lines, each inert, all together bounded."""
    lines = note.strip().splitlines()[:MAX_NOTE_LINES]
    joined = "\n".join(inert(line, MAX_NOTE_CHARACTERS) for line in lines)
    if len(joined) <= MAX_NOTE_CHARACTERS:
        return joined
    return f"{joined[: MAX_NOTE_CHARACTERS - 1]}…"


def _heading(alert: Alert, shared: Facts) -> str:
    """The alert's name, and whose it is where others of the group are someone else's."""
    said = {name for name, _ in shared}
    parts = [alert.labels.get("alertname", "alert")]
    parts += [alert.labels.get("task_id") if "Task" not in said else ""]
    parts += [alert.labels.get("node") if "Node" not in said else ""]
    parts += [f"rank {alert.labels.get('rank')}" if "rank" in alert.labels else ""]
    return inert(" ".join(inert(part, 80) for part in parts if part))


def _moment(time_ms: int | None) -> str:
    return "" if time_ms is None else format_rfc3339(time_ms)


def _ranks(alert: Alert) -> str:
    ranks = {str(entry["rank"]) for entry in alert.evidence if entry.get("rank") not in {None, ""}}
    ranks |= {alert.labels.get("rank")} - {""}
    return ", ".join(sorted(ranks, key=lambda rank: (len(rank), rank)))


def _tier_one(alert: Alert) -> str:
    """What tier 1 saw of a task that tier 2 says suffers: its evidence in a few words."""
    if alert.labels.get("tier") != "2":
        return ""
    said = [f"{cell(one, 'event')} {process(one)}" for one in alert.evidence if one.get("event")]
    lost = [(_number(one, "retransmits"), connection(one)) for one in alert.evidence]
    lost = [(count, where) for count, where in lost if count and where]
    if lost:
        total = f"{sum(count for count, _ in lost):.6g} retransmits"
        said.append(
            f"{total} on {len(lost)} connection{'s' * (len(lost) > 1)}, most {max(lost)[1]}"
        )
    said += [
        f"slow {cell(one, 'call') or cell(one, 'op')} {process(one)}: {cell(one, 'seconds')} s"
        for one in alert.evidence
        if "calls" in one and "seconds" in one
    ]
    if said and (first_ms := _first_seen_ms(alert)) is not None:
        said.append(f"since {format_rfc3339(first_ms)}")
    return "; ".join(said)


def _first_seen_ms(alert: Alert) -> int | None:
    seen = [one["first"] for one in alert.evidence if "first" in one]
    times = [round(time * 1000) for time in seen if not isinstance(time, str)]
    return min(times, default=None)


def _number(entry: EvidenceEntry, name: str) -> float:
    value = entry.get(name, 0)
    return 0.0 if isinstance(value, str) else float(value)


def _rest(alert: Alert) -> Facts:
    return tuple((name, value) for name, value in alert.labels if name not in _PLACED)


def _labels(pairs: Facts) -> Facts:
    shown = [f"{name}={inert(value, 80)}" for name, value in pairs[:MAX_LABELS]]
    if len(pairs) > MAX_LABELS:
        shown.append(f"and {len(pairs) - MAX_LABELS} more")
    return (("Labels", inert(", ".join(shown))),) if shown else ()


def _shared(said: Sequence[tuple[Said, ...]]) -> tuple[Said, ...]:
    common = set(said[0]).intersection(*said[1:])
    return tuple(one for one in said[0] if one in common)


def _without(said: tuple[Said, ...], shared: tuple[Said, ...]) -> tuple[Said, ...]:
    return tuple(one for one in said if one not in shared)


def _tables(evidence: Sequence[EvidenceEntry]) -> Iterable[Table]:
    connections = [entry for entry in evidence if connection(entry)]
    others = [entry for entry in evidence if not connection(entry)]
    if connections:
        columns = ["rank", "process", "connection", "retransmits"]
        extra = sorted({name for entry in connections for name in entry} - _SHOWN)
        rows = tuple(_connection_row(entry, extra) for entry in connections[:MAX_ROWS])
        folded = max(0, len(connections) - MAX_ROWS)
        yield Table("Connections", (*columns, *(inert(name, 40) for name in extra)), rows, folded)
    if others:
        names = sorted({name for entry in others for name in entry} - {"comm", "pid", "rank"})
        rows = tuple(
            (cell(entry, "rank"), process(entry), *(cell(entry, name) for name in names))
            for entry in others[:MAX_ROWS]
        )
        columns = ["rank", "process", *(inert(name, 40) for name in names)]
        yield Table("Evidence", tuple(columns), rows, max(0, len(others) - MAX_ROWS))


def _connection_row(entry: EvidenceEntry, extra: Sequence[str]) -> tuple[str, ...]:
    cells = (cell(entry, "rank"), process(entry), connection(entry), cell(entry, "retransmits"))
    return (*cells, *(cell(entry, name) for name in extra))
