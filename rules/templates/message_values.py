"""What the templates of messages work on: the types of Alertmanager's template package.

Source: template/template.go in Alertmanager 0.34 (`Data`, `Alert`, `Alerts`, `KV`, `Pairs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rules.templates.errors import TemplateError
from rules.templates.values import Struct, Typed, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_FIRST = "alertname"


class Strings(Typed, list[str]):
    """`[]string`."""

    __slots__ = ()
    go_type = "[]string"
    methods: ClassVar[Mapping[str, Callable[..., Any]]] = {}


class Pairs(Typed, list[Any]):
    """Names and values in order, each a `Pair`."""

    __slots__ = ()
    go_type = "template.Pairs"
    methods: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "Names": lambda own: Strings(pair.fields["Name"] for pair in own),
        "Values": lambda own: Strings(pair.fields["Value"] for pair in own),
        "String": str,
    }

    def __str__(self) -> str:
        return ", ".join(f"{pair.fields['Name']}={pair.fields['Value']}" for pair in self)


class KV(Typed, dict[str, str]):
    """Labels or annotations; one that is missing is empty."""

    __slots__ = ()
    go_type = "template.KV"
    methods: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "SortedPairs": lambda own: own.sorted_pairs(),
        "Remove": lambda own, names: own.remove(names),
        "Names": lambda own: own.sorted_pairs().call("Names"),
        "Values": lambda own: own.sorted_pairs().call("Values"),
        "String": str,
    }

    def sorted_pairs(self) -> Pairs:
        """The alert's name first, then by name."""
        names = sorted(self, key=lambda name: (name != _FIRST, name))
        return Pairs(Struct({"Name": name, "Value": self[name]}) for name in names)

    def remove(self, names: Any) -> KV:
        """A copy without these names. Raises TemplateError."""
        if not isinstance(names, list):
            raise TemplateError(f"Remove needs a list of strings, not {type_name(names)}")
        return KV({name: text for name, text in self.items() if name not in names})

    def __str__(self) -> str:
        return str(self.sorted_pairs())


class Alerts(Typed, list[Struct]):
    """Alerts, in the order in which they are told."""

    __slots__ = ()
    go_type = "template.Alerts"
    methods: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "Firing": lambda own: own.having("firing"),
        "Resolved": lambda own: own.having("resolved"),
    }

    def having(self, status: str) -> Alerts:
        """Those with a status."""
        return Alerts(alert for alert in self if alert.fields["Status"] == status)


def common(sets: Iterable[Mapping[str, str]]) -> KV:
    """What all of them have, with the same value."""
    first, *others = [*sets] or [{}]
    return KV({
        name: text
        for name, text in first.items()
        if all(other.get(name) == text for other in others)
    })  # fmt: skip
