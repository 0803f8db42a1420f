"""The values that templates work on, and Go's view of them: type names, truth, comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from rules.slotted import dataclass, field
from rules.templates.errors import TemplateError
from rules.templates.moments import Elapsed, Moment, call_method


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a query's result."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields; asking for another one is an error (in a map it is "")."""

    fields: dict[str, Any] = field(default_factory=dict)


class Arguments(dict[str, Any]):
    """What `args` gives: a map with values of any type. `size`: of all that it holds."""

    @property
    def size(self) -> int:
        """Values within values, long texts as several."""
        return self._size

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._size = 1 + sum(map(_size_of, values.values()))


def _size_of(value: Any) -> int:
    if isinstance(value, Arguments):
        return value.size
    return 1 + len(value) // 1_000 if isinstance(value, str | list | dict) else 1


class Html(str):
    """Text that `safeHtml` has marked; it prints as it is."""

    __slots__ = ()


class Url(str):
    """Text that `safeUrl` has marked: an address that is followed as it is."""

    __slots__ = ()


class Typed:
    """A value of a Go type with methods, which go before its fields and keys."""

    __slots__ = ()
    go_type: ClassVar[str]
    methods: ClassVar[Mapping[str, Callable[..., Any]]]

    def call(self, name: str, arguments: tuple[Any, ...] = ()) -> Any:
        """One of its methods. Raises TemplateError."""
        try:
            return self.methods[name](self, *arguments)
        except TypeError:
            given = ", ".join(map(type_name, arguments)) or "nothing"
            raise TemplateError(f"wrong arguments for the method {name}: {given}") from None


_ROOT_TYPE = (
    "struct { Labels map[string]string; ExternalLabels map[string]string; ExternalURL string; "
    "Value interface {} }"
)

QueryFunction: TypeAlias = Callable[[str], Sequence[Sample]]


# In the order of asking: a bool is an int to Python, and some of our classes are dicts and strings.
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (type(None), "<nil>"),
    (bool, "bool"),
    (int, "int"),
    (float, "float64"),
    (Html, "template.HTML"),
    (Url, "template.URL"),
    (str, "string"),
    (Arguments, "map[string]interface {}"),
    (dict, "map[string]string"),
    (Sample, "*template.sample"),
    (list, "template.queryResult"),
    (Moment, "*time.Time"),
    (Elapsed, "*time.Duration"),
)


def type_name(value: Any) -> str:
    """Go's name of a value's type."""
    if isinstance(value, Typed):
        return value.go_type
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), _ROOT_TYPE)


def truth(value: Any) -> bool:
    """Go's truth: zero, "", nil and what is empty are false; NaN and structs are true."""
    if isinstance(value, Struct | Sample):
        return True
    return bool(value)


def member(value: Any, name: str) -> Any:
    """`.name` of a value. Raises TemplateError when it has none."""
    if isinstance(value, Typed) and name in value.methods:
        return value.call(name)
    if isinstance(value, Arguments):
        return value.get(name)
    if isinstance(value, dict):
        return value.get(name, "")
    if isinstance(value, Struct) and name in value.fields:
        return value.fields[name]
    if isinstance(value, Sample) and name in {"Labels", "Value"}:
        return value.labels if name == "Labels" else value.value
    if isinstance(value, Moment | Elapsed):
        return call_method(value, name)
    if value is None:
        raise TemplateError(f"nil has no field '{name}'")
    raise TemplateError(f"can't evaluate field {name} in type {type_name(value)}")


def equal(first: Any, second: Any) -> bool:
    """`eq`: only values of one basic type compare; 1 and 1.0 do not."""
    if first is None or second is None:
        return first is second
    if type_name(first) != type_name(second):
        raise TemplateError(_incompatible(first, second))
    if isinstance(first, dict | list):
        raise TemplateError(f"can't compare values of type {type_name(first)}")
    return bool(first == second)


def less(first: Any, second: Any) -> bool:
    """`lt`, for numbers and strings."""
    if type_name(first) != type_name(second):
        raise TemplateError(_incompatible(first, second))
    if isinstance(first, bool) or not isinstance(first, int | float | str):
        raise TemplateError(f"can't order values of type {type_name(first)}")
    return bool(first < second)


def _incompatible(first: Any, second: Any) -> str:
    message = f"incompatible types for comparison: {type_name(first)} and {type_name(second)}"
    if {type_name(first), type_name(second)} == {"int", "float64"}:
        whole = first if isinstance(first, int) else second
        message += f" (write {whole}.0)"
    return message
