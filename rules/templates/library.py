"""The named templates of messages: the built-in ones, and those of files, which go first."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rules.fields import did_you_mean
from rules.slotted import dataclass, field
from rules.source import Problem, Source
from rules.templates.errors import TemplateError
from rules.templates.machine import Run, Surroundings
from rules.templates.message_functions import FUNCTIONS, NAMES
from rules.templates.parser import is_empty, parse
from rules.templates.tree import Branch, Include, Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rules.templates.machine import Printed
    from rules.templates.tree import Node

# A group may have a thousand alerts.
MOST_STEPS = 1_000_000
_DEFAULTS = "default.tmpl"


@dataclass(frozen=True, slots=True)
class Library:
    """Named templates and the text that each stands in. `jinja`: files in that language.

    `complete`: every file could be read. If not, one of the others may define what is missing.
    """

    defined: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    jinja: Mapping[str, Source] = field(default_factory=dict)
    complete: bool = True

    def read(self, text: str) -> Template:
        """A receiver's text, which may include what is defined here. Raises TemplateError."""
        template = _parsed(text)
        known = {**self.defined, **template.defined}
        for node in _includes((template.body, *template.defined.values())):
            if node.name not in known and self.complete:
                raise _unknown(node, known)
        return Template(template.body, known)

    def expand(self, template: Template, data: Any, printed: Printed | None = None) -> str:
        """The text of a template that `read` gave. Raises TemplateError."""
        around = Surroundings(data, FUNCTIONS, printed=printed, most_steps=MOST_STEPS)
        return Run(template, around).text()

    def place(self, error: TemplateError) -> str:
        """`file:line:column` of what failed in a named template, "" in a receiver's own text."""
        source = self.sources.get(error.within)
        return "" if source is None else Problem(source, error.span, "").place


def library(
    sources: Iterable[Source] = (), *, complete: bool = True
) -> tuple[Library, tuple[Problem, ...]]:
    """The built-in templates and those of files, of which later ones replace earlier ones.

    A file is a template of its own name, too. What is wrong is told at its place. `complete`: no
    file is missing in `sources`.
    """
    defined: dict[str, tuple[Node, ...]] = {}
    places: dict[str, Source] = {}
    problems: list[Problem] = []
    read: list[tuple[Source, Template]] = []
    for source in (_builtin(), *sources):
        try:
            template = _parsed(source.text)
        except TemplateError as error:
            problems.append(Problem(source, error.span, error.message, error.hint, "template"))
            complete = False
            continue
        read.append((source, template))
        for name, body in ((PurePath(source.name).name, template.body), *template.defined.items()):
            if name not in defined or not is_empty(body):
                defined[name], places[name] = body, source
    for source, template in read:
        for node in _includes((template.body, *template.defined.values())):
            if node.name not in defined and complete:
                found = _unknown(node, defined)
                problems.append(Problem(source, found.span, found.message, found.hint, "template"))
    return Library(defined, places, complete=complete), tuple(problems)


def _builtin() -> Source:
    return Source(_DEFAULTS, files(__package__).joinpath(_DEFAULTS).read_text(encoding="utf-8"))


@lru_cache(maxsize=256)
def _parsed(text: str) -> Template:
    try:
        return parse(text, NAMES, ("$",))
    except RecursionError:
        raise TemplateError("nested too deeply") from None


def _unknown(node: Include, known: Iterable[str]) -> TemplateError:
    hint = did_you_mean(node.name, [*known])
    return TemplateError(f"there is no template '{node.name}'", node.span, hint)


def _includes(bodies: Iterable[tuple[Node, ...]]) -> Iterator[Include]:
    pending = [*bodies]
    while pending:
        for node in pending.pop():
            if isinstance(node, Include):
                yield node
            elif isinstance(node, Branch):
                pending += (node.body, node.otherwise)
