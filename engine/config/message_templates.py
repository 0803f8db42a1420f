"""Templates of messages: the files that `templates` names, and the fields that use them.

A field is text in Go's template language, or `{jinja: text}`.
"""

from __future__ import annotations

import glob
import re
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, core_schema

from engine.config.complaints import TEMPLATE
from rules.decoding import UnreadableError, read_source
from rules.document import Scalar
from rules.fields import Fields
from rules.slotted import replace
from rules.source import ProblemsError, Source
from rules.templates.errors import TemplateError
from rules.templates.library import Library, library

if TYPE_CHECKING:
    from pydantic import ValidationInfo

    from engine.config.secrets import SecretReader
    from rules.document import Mapping
    from rules.fields import Report
    from rules.source import Problem
    from rules.templates.jinja import JinjaTemplate
    from rules.templates.machine import Printed

SETTING = "templates"
JINJA = "jinja"
JINJA_FILE = ".j2"
# Where a field's validator finds the library.
CONTEXT = "templates"
# What Go's filepath.Match can read: escapes, and brackets that hold something and are closed.
_ONE = r"(?:\\.|[^\\\]-])"
_PATTERN = re.compile(rf"(?:\\.|[^\\\[]|\[\^?(?:{_ONE}(?:-{_ONE})?)+\])*", re.DOTALL)


class MessageTemplate:
    """A receiver's text, which may hold Go templates, or is Jinja. An empty one is false.

    As a field of a receiver's settings it is checked when they are read: what is wrong is told at
    its place in the file.
    """

    __slots__ = ("_jinja", "_library", "_template", "text")

    def __init__(
        self, text: str = "", templates: Library | None = None, *, jinja: bool = False
    ) -> None:
        """Raises TemplateError when the text cannot be read."""
        self.text = text
        self._library = builtin() if templates is None else templates
        self._template = self._library.read(text) if "{{" in text and not jinja else None
        self._jinja: JinjaTemplate | None = None
        if jinja:
            from rules.templates.jinja import JinjaTemplate

            self._jinja = JinjaTemplate(text, self._library.jinja)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __repr__(self) -> str:
        return f"MessageTemplate({self.shown()!r})"

    def shown(self) -> str | dict[str, str]:
        """As it is written in a configuration."""
        return self.text if self._jinja is None else {JINJA: self.text}

    def expand(self, data: Any, printed: Printed | None = None) -> str:
        """The text for a message's data. Raises TemplateError, which says where it failed."""
        if self._jinja is not None:
            return self._jinja.expand(data, printed)
        if self._template is None:
            return self.text if printed is None else printed.literal(self.text)
        try:
            return self._library.expand(self._template, data, printed)
        except TemplateError as error:
            place = self._library.place(error)
            where = f"{place}: " if place else ""
            told = error.message if error.within else error.located(self.text)
            raise TemplateError(f"{where}{told}", error.span, error.hint) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls._validated, serialization=core_schema.plain_serializer_function_ser_schema(_text)
        )

    @classmethod
    def _validated(cls, value: Any, info: ValidationInfo) -> MessageTemplate:
        if isinstance(value, cls):
            return value
        jinja = isinstance(value, dict) and [*value] == [JINJA]
        text = value[JINJA] if jinja else value
        # What YAML took for a number or a truth value was written as text.
        if text is None or isinstance(text, list | dict):
            raise PydanticCustomError("string_type", "expected text")
        try:
            return cls(str(text), (info.context or {}).get(CONTEXT), jinja=jinja)
        except TemplateError as error:
            start, end = error.span
            context = {"start": start, "end": end, "hint": error.hint}
            # Braces of the message would be taken for pydantic's own.
            raise PydanticCustomError(
                TEMPLATE, "{said}", {**context, "said": error.message}
            ) from None


def _text(template: MessageTemplate) -> str | dict[str, str]:
    return template.shown()


@lru_cache(maxsize=1)
def builtin() -> Library:
    """The templates that are there without any file."""
    return library()[0]


def read_templates(
    secrets: SecretReader, root: Mapping, *, alertmanagers: bool = False
) -> tuple[Library, tuple[Problem, ...]]:
    """The library of the files that a configuration names, and what is wrong in them.

    As in Alertmanager a pattern that matches no file is no error; here it is a warning. One that
    no file can match (a bracket that is not closed) is refused, as there. A file whose name ends
    in `.j2` is Jinja; those of an alertmanager.yml are all Go templates.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    complete = True
    for node in Fields(secrets.report, root).items(SETTING):
        if not isinstance(node, Scalar) or not node.value:
            continue
        if not _PATTERN.fullmatch(node.value):
            message = f"'{node.value}' is no pattern of file names"
            hint = "close the [, or write [[] for the character itself"
            if _PATTERN.fullmatch(node.value + "\\"):
                hint = "a \\ stands before the character that it protects"
            secrets.report.add(node.span, message, hint, "template")
            complete = False
            continue
        # As the rule files' patterns: absolute ones, too, which pathlib does not take.
        paths = sorted(glob.glob(str(secrets.folder / node.value)))  # noqa: PTH207
        if not paths:
            message = f"'{node.value}' matches no file"
            secrets.report.add(node.span, message, code="template", severity="warning")
        for path in paths:
            source = _opened(path, node, secrets.report, problems)
            complete = complete and source is not None
            # Empty in its place: that it is not there would be a second error, and a false one.
            sources.append(Source(path, "") if source is None else source)
    if not sources and complete:
        return builtin(), ()
    jinja = {} if alertmanagers else {
        PurePath(one.name).name: one for one in sources if one.name.endswith(JINJA_FILE)
    }  # fmt: skip
    of_go = [one for one in sources if alertmanagers or not one.name.endswith(JINJA_FILE)]
    found, wrong = library(of_go, complete=complete)
    if not jinja:
        return found, (*problems, *wrong)
    from rules.templates.jinja import checked

    return replace(found, jinja=jinja), (*problems, *wrong, *checked(jinja))


def _opened(path: str, node: Scalar, report: Report, problems: list[Problem]) -> Source | None:
    try:
        return read_source(path)
    except ProblemsError as error:
        problems.extend(error.problems)
    except UnreadableError as error:
        report.add(node.span, f"cannot be read: {error}", code="template")
    return None
