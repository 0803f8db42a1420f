"""Which functions a template calls."""

from __future__ import annotations

from functools import lru_cache

from rules.templates.errors import TemplateError
from rules.templates.lexer import tokens


@lru_cache(maxsize=4096)
def words_of(text: str) -> frozenset[str]:
    """The names of functions (and keywords) in a template's actions; none if it cannot be read."""
    if "{{" not in text:
        return frozenset()
    try:
        return frozenset(token.text for token in tokens(text) if token.kind == "word")
    except TemplateError:
        return frozenset()
