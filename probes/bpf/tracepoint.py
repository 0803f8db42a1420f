"""Tracepoint layouts, read from the running kernel's own format files.

Fields move between kernels, so an offset always comes from `events/CATEGORY/EVENT/format` and
reaches the program as a #define; a field that is missing is the caller's to answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.bpf import tracefs
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FIELD = re.compile(
    r"^\s*field:(?P<declaration>[^;]+);\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);"
    r"\s*signed:(?P<signed>[01]);",
    re.MULTILINE,
)
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*$")
_ID = re.compile(r"^ID:\s*(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a tracepoint record: bytes from its start, length in bytes."""

    offset: int
    size: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Format:
    """A tracepoint's id and fields by name."""

    event: str
    id: int
    fields: Mapping[str, Field]

    def require(self, *names: str) -> None:
        """Raises UnavailableError (no_tracepoint) naming the fields that this kernel lacks."""
        missing = [name for name in names if name not in self.fields]
        if missing:
            raise UnavailableError(
                "no_tracepoint",
                f"the tracepoint {self.event} of this kernel has no field {', '.join(missing)}",
                "a kernel from 4.16 on has it",
            )

    def defines(self, prefix: str, names: Iterable[str]) -> dict[str, int]:
        """`PREFIX_NAME_OFFSET` and `PREFIX_NAME_SIZE` for each field that exists."""
        found: dict[str, int] = {}
        for name in names:
            if name in self.fields:
                found[f"{prefix}_{name.upper()}_OFFSET"] = self.fields[name].offset
                found[f"{prefix}_{name.upper()}_SIZE"] = self.fields[name].size
        return found


def parse_format(event: str, text: str) -> Format:
    """Read a format file's text; `event` is only for messages. ValueError without an ID line."""
    identity = _ID.search(text)
    if identity is None:
        raise ValueError(f"the format file of {event} has no ID line")
    fields = {}
    for match in _FIELD.finditer(text):
        name = _NAME.search(match["declaration"])
        if name is not None:
            fields[name[1]] = Field(
                int(match["offset"]), int(match["size"]), match["signed"] == "1"
            )
    return Format(event, int(identity[1]), fields)


def read_format(category: str, event: str) -> Format:
    """The layout on this kernel.

    Raises UnavailableError: no_tracefs, missing_capability (unreadable) or no_tracepoint.
    """
    name = f"{category}:{event}"
    path = tracefs.folder() / "events" / category / event / "format"
    try:
        return parse_format(name, path.read_text(encoding="utf-8"))
    except PermissionError as error:
        raise UnavailableError(
            "missing_capability",
            f"{path} cannot be read",
            "run as root, or add CAP_DAC_READ_SEARCH (docker: --cap-add DAC_READ_SEARCH)",
        ) from error
    except FileNotFoundError as error:
        raise UnavailableError(
            "no_tracepoint",
            f"this kernel has no tracepoint {name}",
            "a newer kernel, or one built with this tracepoint",
        ) from error
