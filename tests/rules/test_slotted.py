"""What rules.slotted makes is what `dataclasses` makes, in less time."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pprint
from typing import TYPE_CHECKING, Any

import pytest

from rules import slotted

if TYPE_CHECKING:
    from collections.abc import Callable


def classes(made_by: Any) -> tuple[Any, Any]:
    """The same two classes, frozen and not, by one module or the other."""

    @made_by.dataclass(frozen=True, slots=True)
    class Reading:
        """A reading."""

        name: str
        value: float
        unit: str = "s"
        notes: list[str] = made_by.field(default_factory=list)
        source: str = made_by.field(default="", repr=False, compare=False)
        cache: dict[str, int] = made_by.field(init=False, repr=False, default_factory=dict)

        @property
        def shown(self) -> str:
            return f"{self.value} {self.unit}"

    @made_by.dataclass(slots=True)
    class Tally:
        count: int = 0

        def add(self) -> None:
            self.count += 1

    Reading.__qualname__, Tally.__qualname__ = "Reading", "Tally"
    return Reading, Tally


STANDARD, STANDARD_TALLY = classes(dataclasses)
OURS, OUR_TALLY = classes(slotted)
# Where pickle looks for it.
Reading = OURS


@pytest.mark.parametrize(
    "look",
    [
        lambda cls: repr(cls("a", 1.0)),
        lambda cls: repr(cls("a", 1.0, "m", ["x"], "here")),
        lambda cls: cls(value=1.0, name="a").shown,
        lambda cls: cls("a", 1.0, source="here") == cls("a", 1.0, source="there"),
        lambda cls: cls("a", 1.0) == cls("a", 2.0),
        lambda cls: cls("a", 1.0) == ("a", 1.0),
        lambda cls: cls("a", 1.0).notes is cls("a", 1.0).notes,
        lambda cls: cls.__match_args__,
        lambda cls: cls.__slots__,
        lambda cls: cls.__doc__,
        lambda cls: hasattr(cls("a", 1.0), "__dict__"),
        lambda cls: [(one.name, one.type, one.init) for one in dataclasses.fields(cls)],
        lambda cls: dataclasses.asdict(cls("a", 1.0)),
        lambda cls: dataclasses.replace(cls("a", 1.0), value=2.0).value,
        lambda cls: slotted.replace(cls("a", 1.0, "m"), value=2.0).shown,
        lambda cls: pprint.pformat(cls("a", 1.0)),
        lambda cls: copy.deepcopy(cls("a", 1.0, "m", ["x"])).notes,
    ],
)
def test_what_is_seen_of_it_is_the_same(look: Callable[[Any], Any]) -> None:
    assert look(OURS) == look(STANDARD)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda cls: cls(),
        lambda cls: cls("a", 1.0, cache={}),
        lambda cls: cls("a", 1.0, "m", [], "here", {}),
        lambda cls: cls("a", 1.0, name="b"),
        lambda cls: setattr(cls("a", 1.0), "value", 2.0),
        lambda cls: delattr(cls("a", 1.0), "value"),
        lambda cls: hash(cls("a", 1.0)),
    ],
)
def test_what_cannot_be_done_fails_the_same(attempt: Callable[[Any], Any]) -> None:
    messages = []
    for cls in (STANDARD, OURS):
        with pytest.raises((TypeError, AttributeError)) as raised:
            attempt(cls)
        messages.append((raised.type, str(raised.value).rpartition(".")[2]))
    assert messages[0] == messages[1]


def test_it_takes_no_other_attribute() -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'other'"):
        OURS("a", 1.0).other = 2.0


def test_equal_ones_have_the_same_hash() -> None:
    @slotted.dataclass(frozen=True, slots=True)
    class Place:
        line: int
        note: str = slotted.field(default="", compare=False)

    assert hash(Place(1, "a")) == hash(Place(1, "b")) != hash(Place(2))


def test_one_that_is_not_frozen_changes_and_has_no_hash() -> None:
    tally = OUR_TALLY()
    tally.add()
    assert tally == OUR_TALLY(1)
    assert OUR_TALLY.__hash__ is STANDARD_TALLY.__hash__ is None


def test_it_is_pickled() -> None:
    reading = OURS("a", 1.0, "m", ["x"])
    assert pickle.loads(pickle.dumps(reading)) == reading


def test_it_is_matched_by_place() -> None:
    match OURS("a", 1.0):
        case OURS(name, value):
            assert (name, value) == ("a", 1.0)


def test_its_signature_is_there_once_one_is_made() -> None:
    OURS("a", 1.0)
    parameters = inspect.signature(OURS).parameters
    assert list(parameters) == list(inspect.signature(STANDARD).parameters)
    assert parameters["unit"].default == "s"
    assert parameters["unit"].annotation == "str"


def test_post_init_runs_after_the_fields_are_there() -> None:
    @slotted.dataclass(slots=True)
    class Span:
        start: int
        end: int
        length: int = slotted.field(init=False)
        step: int = slotted.field(init=False, default=2)

        def __post_init__(self) -> None:
            self.length = self.end - self.start
            self.step *= 2

    assert Span(1, 5) == Span(end=5, start=1)
    assert (Span(1, 5).length, Span(1, 5).step) == (4, 4)


def test_a_subclass_with_methods_only_is_made_like_its_base() -> None:
    class Loud(OURS):  # type: ignore[valid-type, misc]
        __slots__ = ()

        def shout(self) -> str:
            return f"{self.name}!"

    assert Loud("a", 1.0).shout() == "a!"
    assert dataclasses.replace(Loud("a", 1.0), name="b").shout() == "b!"
    assert [one.name for one in dataclasses.fields(Loud)][:2] == ["name", "value"]


def test_without_eq_each_instance_equals_itself_only() -> None:
    @slotted.dataclass(frozen=True, slots=True, eq=False)
    class Place:
        line: int

    one = Place(1)
    assert one != Place(1)
    assert {one: 1}[one] == 1


@pytest.mark.parametrize("made_by", [dataclasses, slotted])
def test_methods_of_its_own_stay(made_by: Any) -> None:
    @made_by.dataclass(frozen=True, slots=True)
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return self.text

    made: Any = Name
    assert (made("a") == made("A"), hash(made("a")), repr(made("a"))) == (True, 7, "a")


def test_what_would_be_wrong_is_refused_where_it_is_defined() -> None:
    with pytest.raises(TypeError, match="More is a subclass of a dataclass"):

        @slotted.dataclass(slots=True)
        class More(OURS):  # type: ignore[valid-type, misc]
            more: int

    with pytest.raises(ValueError, match="one list for all instances"):

        @slotted.dataclass(slots=True)
        class Shared:
            notes: list[str] = []  # noqa: RUF012


def test_slots_are_asked_for() -> None:
    with pytest.raises(TypeError, match="slots=True is missing"):
        slotted.dataclass(slots=False)


def test_what_is_shown_to_others_may_be_looked_at_by_two_threads_at_once() -> None:
    made = classes(slotted)[0]
    late = vars(made)["__dataclass_fields__"]
    first = late.__get__(None, made)
    # The other thread had found the descriptor before the first put what stays in its place.
    assert late.__get__(None, made) is first
