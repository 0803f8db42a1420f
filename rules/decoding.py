"""From bytes to text, with one clear error for what is not text."""

from __future__ import annotations

import codecs
import os
import re
import stat
from typing import TYPE_CHECKING

from rules.errors import StallwatchError
from rules.source import Problem, ProblemsError, Source, Span

if TYPE_CHECKING:
    from pathlib import Path

# The largest public rule file seen is under 1 MiB.
LARGEST_FILE_BYTES = 16 * 1024 * 1024

# All but what YAML 1.1 calls printable (production c-printable). Written as what it is: to compile
# the negation of the long ranges takes ten milliseconds.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class UnreadableError(StallwatchError):
    """A file cannot be opened at all, so there is no place in it to point at."""


def read_source(path: str | Path) -> Source:
    """The text of a file.

    Raises UnreadableError for a file that cannot be opened, ProblemsError for one that is no text.
    """
    try:
        # Not blocking: opening a named pipe would wait for ever for somebody to write to it.
        with open(path, "rb", opener=open_at_once) as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
            if not content and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise UnreadableError(f"{path}: a pipe that nobody writes to")
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in the path
        raise UnreadableError(f"{path!r}: {error}") from error
    return decode(str(path), content)


def open_at_once(path: str, flags: int) -> int:
    """An opener for `open` that does not wait for the other end of a named pipe."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def decode(name: str, content: bytes) -> Source:
    """`content` as text: UTF-8, or UTF-16 with a byte order mark, as YAML allows.

    Raises ProblemsError at the first byte or character that cannot stand in a YAML file.
    """
    if len(content) > LARGEST_FILE_BYTES:
        raise _refused(
            Source(name, ""), 0, f"the file is larger than {LARGEST_FILE_BYTES >> 20} MiB",
            "is this the right file? A rule file is a few kilobytes",
        )  # fmt: skip
    encoding = "utf-8"
    for mark, marked in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            encoding, content = marked, content[len(mark) :]
            break
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        text = content.decode(encoding, errors="replace")
        source = Source(name, _UNPRINTABLE.sub("\ufffd", text))
        place = len(content[: error.start].decode(encoding))
        byte = content[error.start]
        message = f"byte 0x{byte:02x} is not {encoding.upper().removesuffix('-LE')}"
        raise _refused(source, place, message, "save the file as UTF-8") from None
    source = Source(name, text)
    found = _UNPRINTABLE.search(text)
    if found is not None:
        message = f"control character U+{ord(found.group()):04X} cannot stand in a YAML file"
        hint = "is this a text file?" if found.group() == "\0" else "delete it"
        # What is shown on a terminal must not steer it.
        shown = Source(name, _UNPRINTABLE.sub("\ufffd", text))
        raise _refused(shown, found.start(), message, hint)
    return source


def _refused(source: Source, offset: int, message: str, hint: str) -> ProblemsError:
    span = Span(offset, offset + 1)
    return ProblemsError([Problem(source, span, message, hint, code="encoding")])
