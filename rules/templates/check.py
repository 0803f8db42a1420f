"""Whether a template can be read, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rules.templates.errors import TemplateError
from rules.templates.names import NAMES
from rules.templates.parser import parse

if TYPE_CHECKING:
    from rules.templates.tree import Template

# What Prometheus defines in front of every template of a rule.
VARIABLES = ("$", "$labels", "$externalLabels", "$externalURL", "$value")


def check_template(text: str) -> TemplateError | None:
    """What is wrong with a template's syntax, None if nothing."""
    try:
        read(text)
    except TemplateError as error:
        return error
    return None


def read(text: str) -> Template:
    """The tree of a template in a rule file. Raises TemplateError."""
    return parse(text, NAMES, VARIABLES)
