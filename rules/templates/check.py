"""Whether a template can be read, without running it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rules.templates.errors import TemplateError
from rules.templates.names import NAMES

if TYPE_CHECKING:
    from rules.templates.tree import Template

# What Prometheus defines in front of every template of a rule.
VARIABLES = ("$", "$labels", "$externalLabels", "$externalURL", "$value")
# Nineteen of twenty templates have no other actions. They can be read, which is all that is asked
# here; the parser takes longer to import than a rule file takes to check.
_PLAIN = re.compile(r"[^{]*(?:\{\{ ?\$(?:value|labels(?:\.[A-Za-z_][A-Za-z0-9_]*)?) ?\}\}[^{]*)*")


def check_template(text: str) -> TemplateError | None:
    """What is wrong with a template's syntax, None if nothing."""
    if _PLAIN.fullmatch(text):
        return None
    try:
        read(text)
    except TemplateError as error:
        return error
    return None


def read(text: str) -> Template:
    """The tree of a template in a rule file. Raises TemplateError."""
    from rules.templates.parser import parse

    return parse(text, NAMES, VARIABLES)
