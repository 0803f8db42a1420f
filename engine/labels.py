"""Label sets: sorted, immutable, hashable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

METRIC_NAME = "__name__"
_PLAIN_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PLAIN_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Labels:
    """A label set. An empty value means the label is absent, as in Prometheus."""

    __slots__ = ("_hash", "pairs")

    pairs: tuple[tuple[str, str], ...]

    def __init__(self, labels: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        items = labels.items() if hasattr(labels, "items") else labels
        self.pairs = tuple(sorted((name, value) for name, value in items if value))
        self._hash = hash(self.pairs)

    @classmethod
    def of(cls, **labels: str) -> Labels:
        """Labels from keywords: `Labels.of(job="a")`."""
        return cls(labels)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.pairs == other.pairs

    def __lt__(self, other: Labels) -> bool:
        return self.pairs < other.pairs

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __contains__(self, name: str) -> bool:
        return any(name == own for own, _ in self.pairs)

    def __repr__(self) -> str:
        return f"Labels({self})"

    def __str__(self) -> str:
        """PromQL's spelling: `name{a="b", c="d"}`."""
        return self.spelled(", ")

    def spelled(self, separator: str) -> str:
        """`name{a="b",c="d"}`; names that are no identifiers are quoted, the metric's inside.

        Source: `Metric.String` of prometheus/common, and OpenMetrics, which has no spaces.
        """
        parts = [
            f"{name if _PLAIN_LABEL.fullmatch(name) else quote(name)}={quote(value)}"
            for name, value in self.pairs
            if name != METRIC_NAME
        ]
        name = self.name
        if name and not _PLAIN_NAME.fullmatch(name):
            parts.insert(0, quote(name))
            name = ""
        return f"{name}{{{separator.join(parts)}}}" if parts or not name else name

    @property
    def name(self) -> str:
        """The metric name, "" when there is none."""
        return self.get(METRIC_NAME)

    def get(self, name: str, default: str = "") -> str:
        """The value of a label."""
        for own, value in self.pairs:
            if own == name:
                return value
        return default

    def to_dict(self) -> dict[str, str]:
        """A fresh dict of all labels."""
        return dict(self.pairs)

    def merged(self, other: Mapping[str, str]) -> Labels:
        """These labels with `other`'s on top; an empty value removes the label."""
        return Labels({**dict(self.pairs), **other})

    def without(self, *names: str) -> Labels:
        """These labels less the named ones."""
        return Labels(pair for pair in self.pairs if pair[0] not in names)

    def only(self, *names: str) -> Labels:
        """Just the named labels."""
        return Labels(pair for pair in self.pairs if pair[0] in names)


def quote(value: str) -> str:
    """A label value as the exposition format and PromQL quote it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
