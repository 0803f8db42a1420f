"""An alert in fewer words, where a message has no room for all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.alerts.wording import evidence_text, inert

if TYPE_CHECKING:
    from notifiers.messages.composition import Facts, Message, Part

MAX_BRIEF_CHARACTERS = 100
MAX_SHORT_CHARACTERS = 200
_SHORT = ("Task", "Node", "Ranks", "Value", "Tier 1", "Keeps back", "Gives back", "Since",
          "Resolved", "Flapping", "Held back", "Runbook")  # fmt: skip
_SHORT_HEAD = ("Task", "Node", "Cluster", "Held back", "Runbook")


def short_notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The first note as one line."""
    return tuple(inert(note, MAX_SHORT_CHARACTERS) for note in notes[:1])


def short_head(message: Message) -> Facts:
    """Of what all alerts share, what helps to find the place and the way on."""
    return tuple(fact for fact in message.facts if fact[0] in _SHORT_HEAD)


def short_facts(part: Part) -> Facts:
    """Where, how bad, since when and why: the first entry of the evidence stands for all."""
    facts = tuple(fact for fact in part.facts if fact[0] in _SHORT)
    if part.alert.evidence and not part.fact("Tier 1"):
        return (*facts, ("Evidence", inert(evidence_text(part.alert.evidence[0]))))
    return facts


def brief(part: Part) -> str:
    """One line: what, whose, how bad, since when."""
    said = [f"value {part.fact('Value')}", f"since {part.fact('Since')}"]
    if part.status == "resolved":
        said = [f"resolved {part.fact('Resolved')}"]
    said += [part.fact("Tier 1")]
    line = f"{part.heading}: {', '.join(text for text in said if text)}"
    labels = part.fact("Labels")
    if labels:
        line += f" ({inert(labels, MAX_BRIEF_CHARACTERS)})"
    if part.notes:
        line += f": {inert(part.notes[0], MAX_BRIEF_CHARACTERS)}"
    return line
