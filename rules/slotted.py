"""Frozen slotted dataclasses that are quick to define: for what every start of a command imports.

`dataclasses` compiles six methods for each class and brings `inspect` along: half a millisecond a
class and six for the import, where checking a rule file takes sixty classes and a dry-run twice
that. Here a method is compiled when it is first called. What is made looks the same to type
checkers, `match`, `pickle` and the functions of `dataclasses`; not for it are subclasses of
dataclasses, ClassVar, InitVar and KW_ONLY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, field, replace

__all__ = ["dataclass", "field", "replace"]

_Class = TypeVar("_Class", bound=type[Any])
_Instance = TypeVar("_Instance")
_ABSENT: Final = object()


class _Field:
    """What is said of one field; the arguments are those of `dataclasses.field`."""

    __slots__ = ("compare", "default", "factory", "init", "repr")

    def __init__(
        self,
        *,
        default: Any = _ABSENT,
        default_factory: Any = _ABSENT,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - the name that it has in `dataclasses`
        compare: bool = True,
    ) -> None:
        self.default = default
        self.factory = default_factory
        self.init = init
        self.repr = repr
        self.compare = compare

    def standard(self) -> Any:
        """The same as `dataclasses` has it."""
        import dataclasses

        given: dict[str, Any] = {}
        if self.default is not _ABSENT:
            given["default"] = self.default
        if self.factory is not _ABSENT:
            given["default_factory"] = self.factory
        return dataclasses.field(init=self.init, repr=self.repr, compare=self.compare, **given)


class _Standard:
    """An attribute that a dataclass has for others; taken from a twin when somebody looks."""

    def __init__(self, name: str, fields: dict[str, _Field], *, frozen: bool) -> None:
        self._name = name
        self._fields = fields
        self._frozen = frozen

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        made = next(cls for cls in owner.__mro__ if self._name in vars(cls))
        found = vars(made)[self._name]
        if found is not self:
            return found  # another thread was quicker
        body = {name: field.standard() for name, field in self._fields.items()}
        body["__annotations__"] = made.__annotations__
        body["__module__"] = made.__module__
        twin: Any = dataclasses.dataclass(frozen=self._frozen)(type(made.__name__, (), body))
        found = getattr(twin, self._name)
        setattr(made, self._name, found)
        return found


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Callable[[_Class], _Class]:
    """A decorator, as that of `dataclasses`; `slots` has to be true."""
    if not slots:
        raise TypeError("slots=True is missing")
    return lambda cls: _slotted(cls, frozen=frozen, eq=eq)


def _slotted(cls: _Class, *, frozen: bool, eq: bool) -> _Class:
    """The class anew, since slots are decided when a class is made."""
    if any("__dataclass_fields__" in vars(base) for base in cls.__mro__[1:]):
        raise TypeError(f"{cls.__name__} is a subclass of a dataclass: use that of 'dataclasses'")
    body = dict(cls.__dict__)
    fields = {name: _as_field(body.pop(name, _ABSENT)) for name in cls.__annotations__}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body["__slots__"] = tuple(fields)
    body["__qualname__"] = cls.__qualname__
    body["__match_args__"] = tuple(name for name, field in fields.items() if field.init)
    body.setdefault("__repr__", _repr(fields))
    body["__getstate__"] = _state
    body["__setstate__"] = _restore
    if frozen:
        body["__setattr__"] = _refuse_assignment
        body["__delattr__"] = _refuse_deletion
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        body[name] = _Standard(name, fields, frozen=frozen)
    own_eq, own_hash = "__eq__" in body, body.get("__hash__") is not None
    made: Any = type(cls.__name__, cls.__bases__, body)
    made.__init__ = _late(made, "__init__", lambda: _init(made, fields, frozen=frozen))
    if eq and not own_eq:
        made.__eq__ = _late(made, "__eq__", lambda: _eq(made, fields))
    if eq and not own_hash:
        made.__hash__ = _late(made, "__hash__", lambda: _hash(made, fields)) if frozen else None
    return cast("_Class", made)


def _as_field(value: Any) -> _Field:
    if isinstance(value, _Field):
        return value
    if value.__class__.__hash__ is None:
        raise ValueError(f"one {type(value).__name__} for all instances: use default_factory")
    return _Field(default=value)


def _late(cls: type, name: str, compiled: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that puts the one to stay in its place when it is first called."""

    def method(self: object, *args: Any, **kwargs: Any) -> Any:
        stays = compiled()
        setattr(cls, name, stays)
        return stays(self, *args, **kwargs)

    return method


def _method(cls: type, head: str, lines: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    name, _, _ = head.partition("(")
    exec(f"def {head}:\n" + "\n".join(lines or [" pass"]), scope)  # noqa: S102 - our own names only
    method: Callable[..., Any] = scope[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _init(cls: type, fields: dict[str, _Field], *, frozen: bool) -> Callable[..., None]:
    parameters, lines = ["self"], []
    scope: dict[str, Any] = {"_ABSENT": _ABSENT}
    for name, field in fields.items():
        parameter, value = _parameter_and_value(name, field, scope)
        if field.init:
            parameters.append(parameter)
        if not value:
            continue
        if frozen:
            # Past the class's own __setattr__, and quicker than object.__setattr__ by name.
            scope[f"_set_{name}"] = vars(cls)[name].__set__
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    init = _method(cls, f"__init__({', '.join(parameters)})", lines, scope)
    init.__annotations__ = {
        **{name: cls.__annotations__[name] for name, field in fields.items() if field.init},
        "return": "None",
    }
    return init


def _parameter_and_value(name: str, field: _Field, scope: dict[str, Any]) -> tuple[str, str]:
    """How `__init__` takes a field, and what it sets: "" for one that `__post_init__` sets."""
    if field.factory is not _ABSENT:
        scope[f"_new_{name}"] = field.factory
        new = f"_new_{name}()"
        return f"{name}=_ABSENT", f"{new} if {name} is _ABSENT else {name}" if field.init else new
    if field.default is not _ABSENT:
        scope[f"_default_{name}"] = field.default
        return f"{name}=_default_{name}", name if field.init else f"_default_{name}"
    return name, name if field.init else ""


def _repr(fields: dict[str, _Field]) -> Callable[[object], str]:
    shown = [name for name, field in fields.items() if field.repr]

    def __repr__(self: object) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _eq(cls: type, fields: dict[str, _Field]) -> Callable[..., Any]:
    """Equal are two of the same class whose compared fields are."""
    lines = [
        " if other.__class__ is self.__class__:",
        f"  return {_values('self', fields)} == {_values('other', fields)}",
        " return NotImplemented",
    ]
    return _method(cls, "__eq__(self, other)", lines, {})


def _hash(cls: type, fields: dict[str, _Field]) -> Callable[..., Any]:
    return _method(cls, "__hash__(self)", [f" return hash({_values('self', fields)})"], {})


def _values(instance: str, fields: dict[str, _Field]) -> str:
    compared = [f"{instance}.{name}," for name, field in fields.items() if field.compare]
    return f"({' '.join(compared)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


def _refuse_assignment(_self: object, name: str, _value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _replace(instance: _Instance, /, **changes: Any) -> _Instance:
    """A copy with some fields changed."""
    cls: Any = type(instance)
    for name in cls.__match_args__:
        if name not in changes:
            changes[name] = getattr(instance, name)
    made: _Instance = cls(**changes)
    return made


if not TYPE_CHECKING:
    dataclass, field, replace = _dataclass, _Field, _replace
