"""Jinja as messages may use it: sandboxed, strict, and with no file but those that are named.

https://jinja.palletsprojects.com/en/stable/sandbox/ and .../extensions/ (`filter_stream`). This
module is imported only where there is such a template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import FunctionLoader, StrictUndefined, TemplateSyntaxError, meta, nodes, pass_context
from jinja2.ext import Extension
from jinja2.lexer import Token
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rules.fields import did_you_mean
from rules.source import Span
from rules.templates.errors import TemplateError
from rules.templates.marks import marked, stripped, unmarked
from rules.templates.message_functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jinja2 import Environment
    from jinja2.lexer import TokenStream

# What a template knows at its top: the fields of Alertmanager's `Data`.
NAMES = (
    "receiver",
    "status",
    "alerts",
    "notification_reason",
    "group_labels",
    "common_labels",
    "common_annotations",
    "route_labels",
    "external_url",
)
# Filters that make HTML, which would be shown as text; and words to fill a page with.
_LEFT_OUT = ("urlize", "xmlattr")
_FILLER = "lipsum"
_BLOCKS = (nodes.Block, nodes.Extends)
_REFERENCES = (nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include)


class _Marking(Extension):
    """Marks what the template's author wrote outside of braces, when it is read."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            is_text = token.type == "data"
            yield Token(token.lineno, "data", marked(token.value)) if is_text else token


@pass_context
def _as_it_is(_context: Any, value: Any) -> Any:
    """What is printed. As it asks for the context, nothing is worked out while a text is read."""
    return value


def _text(value: Any) -> str:
    return str(value)


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "date": lambda moment, layout: FUNCTIONS["date"](layout, moment),
    "tz": lambda moment, zone: FUNCTIONS["tz"](zone, moment),
    "since": FUNCTIONS["since"],
    "humanize_duration": FUNCTIONS["humanizeDuration"],
    "match": lambda text, pattern: FUNCTIONS["match"](pattern, text),
    "re_replace_all": lambda text, pattern, new: FUNCTIONS["reReplaceAll"](pattern, new, text),
    "title": FUNCTIONS["title"],
    "tojson": FUNCTIONS["toJson"],
    "trim": lambda text: stripped(str(text)),
    "url_unescape": FUNCTIONS["urlUnescape"],
    # Whatever is printed is escaped for its place later; `safe` makes it the author's own.
    "safe": lambda text: marked(unmarked(str(text))),
    **dict.fromkeys(("e", "escape", "forceescape"), _text),
}


def environment(files: Mapping[str, str]) -> Environment:
    """Where templates are read and run. `files`: the texts that they may include, by name."""
    made = ImmutableSandboxedEnvironment(
        loader=FunctionLoader(lambda name: (files[name], name, None) if name in files else None),
        undefined=StrictUndefined,
        extensions=[_Marking],
        finalize=_as_it_is,
        optimized=False,
        autoescape=False,  # the place decides, and it is known only when the text is whole
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in _LEFT_OUT:
        del made.filters[name]
    del made.globals[_FILLER]
    made.filters.update(_FILTERS)
    return made


def check(text: str, files: Mapping[str, str], *, whole: bool) -> None:
    """Read a text without running any of it. Raises TemplateError, at its line.

    `whole`: it is a receiver's, and not a file, which may be given names by who includes it.
    """
    try:
        read, missing = _read(text, environment(files))
    except TemplateSyntaxError as error:
        said = error.message or "it is no template"
        raise TemplateError(said, _line(text, error.lineno)) from None
    except RecursionError:
        raise TemplateError("nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise TemplateError(str(error)) from None
    for node in read.find_all(_REFERENCES):
        for name in _named(node):
            if name not in files:
                hint = did_you_mean(name, [*files]) or "'templates' names files; theirs end in .j2"
                message = f"there is no template '{name}'"
                raise TemplateError(message, _line(text, node.lineno), hint)
    # In a block a name may be one that stands outside of it, or in the text that is extended.
    if not whole or any(read.find_all(_BLOCKS)):
        return
    for own in read.find_all(nodes.Name):
        if own.name in missing:
            message = f"'{own.name}' is not defined"
            raise TemplateError(message, _line(text, own.lineno), did_you_mean(own.name, NAMES))


def _read(text: str, made: Environment) -> tuple[nodes.Template, set[str]]:
    """The tree of a text, and the names that it uses and nobody gives. Raises as Jinja does."""
    read = made.parse(text)
    scope = read.find(nodes.ScopedEvalContextModifier)
    if scope is not None:
        said = "'autoescape' is not known here: whatever is printed is escaped for its place"
        raise TemplateSyntaxError(said, scope.lineno)
    # As `meta.find_undeclared_variables`, which optimizes: `'x' * 10**9` would be worked out here.
    walker = meta.TrackingCodeGenerator(made)
    walker.optimizer = None
    walker.visit(read)
    return read, walker.undeclared_identifiers - {*NAMES, *made.globals}


def _named(node: nodes.Node) -> Iterable[str]:
    """The file that a node names outright."""
    given = getattr(node, "template", None)
    if not isinstance(given, nodes.Const) or getattr(node, "ignore_missing", False):
        return ()
    return (given.value,) if isinstance(given.value, str) else ()


def _line(text: str, number: int) -> Span:
    """A line of the text, without the white space around it."""
    lines = text.splitlines(keepends=True) or [""]
    place = min(max(number, 1), len(lines)) - 1
    line = lines[place]
    start = sum(map(len, lines[:place])) + len(line) - len(line.lstrip())
    return Span(start, start + max(1, len(line.strip())))
