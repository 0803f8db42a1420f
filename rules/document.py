"""YAML with places: every node knows the span of text that it came from.

Built on libyaml's event stream rather than on its composer: the events are iterative, so nesting
is bounded here, and aliases can be counted before they multiply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from rules.scalars import Offsets, content_start
from rules.slotted import dataclass, field
from rules.source import Problem, Source, Span
from rules.syntax import syntax_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEPEST_NESTING = 100
# What Prometheus' YAML library decodes before it looks at the share of aliases.
MOST_NODES = 400_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TAGS = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf. `style` is one of `'`, `"`, `|`, `>` or "" (plain); `span` includes quotes."""

    span: Span
    value: str
    style: str = ""
    tag: str | None = None

    @property
    def null(self) -> bool:
        """Whether it stands for nothing: absent, `~`, `null`."""
        if self.tag is not None:
            return self.tag == f"{_TAGS}null"
        return not self.style and self.value in _NULLS

    def offsets(self, text: str) -> Offsets:
        """The offset in the file's `text` of each character of `value`, and that of its end."""
        return Offsets(text, self.span.start, self.span.end, self.style, self.value)


@dataclass(frozen=True, slots=True)
class Entry:
    """`key: value` of a mapping; `merged` when it came in through `<<`."""

    key: Scalar
    value: Node
    merged: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """Entries in file order, merged ones last; keys are unique."""

    span: Span
    entries: tuple[Entry, ...]

    def get(self, name: str) -> Entry | None:
        """The entry of a key."""
        for entry in self.entries:
            if entry.key.value == name:
                return entry
        return None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    span: Span
    items: tuple[Node, ...]


Node: TypeAlias = Scalar | Mapping | Sequence


@dataclass(frozen=True, slots=True)
class Document:
    """The first document of a YAML stream. `root` None: empty, or not YAML (see `problems`)."""

    root: Node | None
    problems: tuple[Problem, ...] = ()


class _RefusedError(Exception):
    """Stops composing at something that makes the rest of the document meaningless."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Composer:
    source: Source
    problems: list[Problem] = field(default_factory=list)
    anchors: dict[str, Node | None] = field(default_factory=dict)
    # Nodes of each composed collection, aliases expanded, by id; the tree keeps ids alive.
    sizes: dict[int, int] = field(default_factory=dict)
    total: int = 0

    def report(self, span: Span, message: str, hint: str = "") -> Problem:
        problem = Problem(self.source, span, message, hint, code="yaml")
        self.problems.append(problem)
        return problem

    def node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        span = Span(event.start_mark.index, event.end_mark.index)
        if depth > DEEPEST_NESTING:
            raise _RefusedError(self.report(span, f"nested deeper than {DEEPEST_NESTING} levels"))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "", span)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            start = content_start(self.source.text, span.start, span.end)
            node = Scalar(Span(start, span.end), event.value, event.style or "", event.tag)
            size = 1
        else:
            before = self.total
            if isinstance(event, yaml.SequenceStartEvent):
                node = self._sequence(span, events, depth)
            else:
                node = self._mapping(span, events, depth)
            size = self.total - before + 1
        self._count(1, node.span)
        self.sizes[id(node)] = size
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _count(self, nodes: int, span: Span) -> None:
        self.total += nodes
        if self.total > MOST_NODES:
            message = f"the document has more than {MOST_NODES:,} nodes once aliases are expanded"
            raise _RefusedError(self.report(span, message))

    def _alias(self, name: str, span: Span) -> Node:
        if name not in self.anchors:
            hint = "a value that starts with '*' is an alias; put quotes around it if it is text"
            raise _RefusedError(self.report(span, "this alias names no anchor above", hint))
        node = self.anchors[name]
        if node is None:
            raise _RefusedError(self.report(span, "this alias stands inside of its own anchor"))
        self._count(self.sizes[id(node)], span)
        return node

    def _sequence(self, span: Span, events: Iterator[Any], depth: int) -> Sequence:
        items = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self.node(event, events, depth + 1))
        return Sequence(Span(span.start, _end(event)), tuple(items))

    def _mapping(self, span: Span, events: Iterator[Any], depth: int) -> Mapping:
        own: dict[str, Entry] = {}
        merged: list[Entry] = []
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self.node(event, events, depth + 1)
            if not isinstance(key, Scalar):
                hint = "put quotes around a value that starts with '{' or '[', such as a template"
                message = "a key must be text, not a list or a mapping"
                raise _RefusedError(self.report(key.span, message, hint))
            value = self.node(next(events), events, depth + 1)
            if key.value == "<<" and not key.style and key.tag is None:
                merged.extend(self._merge(value))
            elif key.value in own:
                line, _ = self.source.position(own[key.value].key.span.start)
                hint = f"it stands on line {line} already; keep one of them"
                self.report(key.span, f"the key '{key.value}' appears twice", hint)
            else:
                own[key.value] = Entry(key, value)
        for entry in merged:
            own.setdefault(entry.key.value, entry)
        return Mapping(Span(span.start, _end(event)), tuple(own.values()))

    def _merge(self, value: Node) -> Iterator[Entry]:
        for part in value.items if isinstance(value, Sequence) else (value,):
            if isinstance(part, Mapping):
                for entry in part.entries:
                    yield Entry(entry.key, entry.value, merged=True)
            else:
                self.report(part.span, "'<<' merges a mapping or a list of mappings")


def compose(source: Source) -> Document:
    """The first document of `source`, and everything that is wrong with it as YAML."""
    composer = _Composer(source)
    events = iter(yaml.parse(source.text, Loader=_LOADER))
    try:
        root = _first_document(composer, events)
    except _RefusedError:
        return Document(None, tuple(composer.problems))
    except yaml.YAMLError as error:
        return Document(None, (*composer.problems, syntax_problem(source, error)))
    return Document(root, tuple(composer.problems))


def _end(event: yaml.Event) -> int:
    return int(event.end_mark.index) if event.end_mark is not None else 0


def _first_document(composer: _Composer, events: Iterator[Any]) -> Node | None:
    next(events)  # the stream starts
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    root = composer.node(next(events), events, 0)
    next(events)  # the document ends
    try:
        event = next(events)
        ended = isinstance(event, yaml.StreamEndEvent)
        offset = event.start_mark.index
    except yaml.MarkedYAMLError as error:
        ended = False
        offset = error.problem_mark.index if error.problem_mark else len(composer.source.text)
    if not ended:
        message = "only the first YAML document is read; what follows is ignored"
        hint = "move its groups into the first document, or into a file of its own"
        span = Span(offset, offset + 3)
        composer.problems.append(
            Problem(composer.source, span, message, hint, code="yaml", severity="warning")
        )
    if isinstance(root, Scalar) and root.null:
        return None
    return root
