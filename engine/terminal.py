"""Text from elsewhere that is printed: a label's value must not steer the terminal."""

from __future__ import annotations


def harmless(text: str, kept: str = "") -> str:
    """The text with what does not print, but for the characters `kept`, as Python escapes it."""
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode()
        for char in text
    )
