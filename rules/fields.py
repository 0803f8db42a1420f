"""Reading the fields of a YAML mapping, each problem at its own place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.document import Mapping, Scalar, Sequence
from rules.durations import DurationError, parse_duration
from rules.slotted import dataclass, field
from rules.source import Problem, Severity, Source, Span

if TYPE_CHECKING:
    from collections.abc import Collection

    from rules.document import Entry, Node

# More names than this are no hint but a wall of text.
MOST_NAMED = 20
UNKNOWN_FIELD = "unknown-field"
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_LARGEST_INTEGER = 2**63 - 1


def nearest(word: str, known: Collection[str]) -> str:
    """The known word that was probably meant, "" if none is near."""
    # Only for a file that is wrong.
    import difflib

    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return close[0] if close else ""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A hint: the nearest known word, else all of them."""
    close = nearest(word, known)
    if close:
        return f"did you mean '{close}'?"
    return "known here: " + ", ".join(known) if len(known) <= MOST_NAMED else ""


@dataclass(slots=True)
class Report:
    """Collects what is wrong in one file. `tolerated`: codes of what is passed over in silence."""

    source: Source
    problems: list[Problem] = field(default_factory=list)
    tolerated: frozenset[str] = frozenset()

    def add(
        self, span: Span, message: str, hint: str = "", code: str = "", severity: Severity = "error"
    ) -> None:
        """One more problem."""
        if code in self.tolerated:
            return
        self.problems.append(Problem(self.source, span, message, hint, code, severity))

    @property
    def failed(self) -> bool:
        """Whether anything reported so far is an error."""
        return any(problem.severity == "error" for problem in self.problems)

    def ordered(self) -> tuple[Problem, ...]:
        """All of them in file order, each once (an alias reads its anchor again)."""
        unique = dict.fromkeys(self.problems)
        return tuple(sorted(unique, key=lambda problem: problem.span.start))


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one mapping; what they may be called is checked at once."""

    report: Report
    mapping: Mapping
    # Known fields that stand here misspelt: they are not missing as well.
    misspelt: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        report: Report,
        node: Node,
        what: str,
        known: Collection[str],
        misplaced: dict[str, str] | None = None,
    ) -> Fields | None:
        """The fields of `node`, or None (reported) when it is no mapping.

        `misplaced` has a hint for names that belong elsewhere.
        """
        if not isinstance(node, Mapping):
            hint = f"it has the fields {', '.join(known)}"
            report.add(node.span, f"{what} must be a mapping, not {_kind(node)}", hint, code="type")
            return None
        misspelt: set[str] = set()
        for entry in node.entries:
            name = entry.key.value
            if name not in known:
                hint = (misplaced or {}).get(name) or did_you_mean(name, known)
                message = f"{what} has no field '{name}'"
                report.add(entry.key.span, message, hint, code=UNKNOWN_FIELD)
                if UNKNOWN_FIELD not in report.tolerated:
                    misspelt.update(field for field in known if f"'{field}'" in hint)
        return cls(report, node, frozenset(misspelt))

    @property
    def head(self) -> Span:
        """Where to point when a field is missing: the first key, else the mapping itself."""
        if self.mapping.entries:
            return self.mapping.entries[0].key.span
        return self.mapping.span

    def entry(self, name: str) -> Entry | None:
        """A field that is there and not null."""
        found = self.mapping.get(name)
        if found is None or (isinstance(found.value, Scalar) and found.value.null):
            return None
        return found

    def key(self, name: str) -> Span:
        """Where the name of a field stands."""
        found = self.mapping.get(name)
        return self.head if found is None else found.key.span

    def text(self, name: str) -> Scalar | None:
        """A scalar field; any scalar is text, as for Prometheus (`expr: 1`)."""
        found = self.entry(name)
        if found is None:
            return None
        if not isinstance(found.value, Scalar):
            message = f"'{name}' must be text, not {_kind(found.value)}"
            hint = "put quotes around it, or write it below 'key: |'"
            self.report.add(found.value.span, message, hint, code="type")
            return None
        return found.value

    def duration_ms(self, name: str) -> int | None:
        """A duration in milliseconds."""
        scalar = self.text(name)
        if scalar is None:
            return None
        try:
            return parse_duration(scalar.value)
        except DurationError as error:
            message, _, hint = str(error).partition("; ")
            self.report.add(scalar.span, message, hint, code="duration")
            return None

    def integer(self, name: str) -> int:
        """A whole number, 0 when absent."""
        scalar = self.text(name)
        if scalar is None:
            return 0
        digits = scalar.value.replace("_", "")
        if scalar.style or not _WHOLE.fullmatch(scalar.value) or len(digits) > 20:
            message = f"'{name}' must be a whole number, not '{scalar.value[:40]}'"
            self.report.add(scalar.span, message, code="type")
            return 0
        return max(-_LARGEST_INTEGER, min(_LARGEST_INTEGER, int(digits)))

    def items(self, name: str) -> tuple[Node, ...]:
        """The elements of a list field."""
        found = self.entry(name)
        if found is None:
            return ()
        if not isinstance(found.value, Sequence):
            message = f"'{name}' must be a list, not {_kind(found.value)}"
            self.report.add(found.value.span, message, "each element starts with '- '", code="type")
            return ()
        return found.value.items

    def texts(self, name: str) -> tuple[tuple[Scalar, Scalar], ...]:
        """A mapping field from text to text, as (key, value) pairs; null reads as ""."""
        found = self.entry(name)
        if found is None:
            return ()
        if not isinstance(found.value, Mapping):
            message = f"'{name}' must be a mapping, not {_kind(found.value)}"
            self.report.add(found.value.span, message, "write 'name: text' lines", code="type")
            return ()
        pairs = []
        for entry in found.value.entries:
            if isinstance(entry.value, Scalar):
                value = entry.value
                if value.null:
                    value = Scalar(value.span, "", value.style, value.tag)
                pairs.append((entry.key, value))
            else:
                message = f"'{entry.key.value}' must be text, not {_kind(entry.value)}"
                self.report.add(entry.value.span, message, "put quotes around it", code="type")
        return tuple(pairs)


def _kind(node: Node) -> str:
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.null else "text"
