"""Go's text/template with Prometheus' functions, as annotations and labels use it."""

from __future__ import annotations

from rules.templates.check import check_template
from rules.templates.errors import TemplateError
from rules.templates.expand import TemplateData, expand
from rules.templates.uses import words_of
from rules.templates.values import QueryFunction, Sample

__all__ = [
    "QueryFunction",
    "Sample",
    "TemplateData",
    "TemplateError",
    "check_template",
    "expand",
    "words_of",
]
