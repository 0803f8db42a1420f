"""A file of silences, as `amtool silence query -o json` and `stallwatch silence list` write it."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from notifiers.silences.encoding import PostableSilence
from notifiers.silences.silence import Silence, SilenceError, check
from rules.errors import StallwatchError
from rules.promql.regex import PatternError

MAX_BYTES = 64 << 20
_FILE = TypeAdapter(list[PostableSilence])


def read_silences(name: str) -> list[Silence]:
    """The silences of a file (`-`: standard input), without ids: they become new ones.

    Raises StallwatchError that names the file, the silence by its place in it, and what is wrong.
    """
    where = "standard input" if name == "-" else name
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if name == "-" else _read(Path(name))
    if len(data) > MAX_BYTES:
        raise StallwatchError(f"stallwatch: {where}: more than {MAX_BYTES} bytes")
    try:
        posted = _FILE.validate_json(data)
    except ValidationError as error:
        raise StallwatchError(_wrong(where, error)) from error
    found = []
    for place, one in enumerate(posted, start=1):
        try:
            silence = one.model_copy(update={"id": ""}).silence()
            check(silence)
        except (SilenceError, PatternError) as error:
            raise StallwatchError(f"stallwatch: {where}: silence {place}: {error}") from error
        found.append(silence)
    return found


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _wrong(where: str, error: ValidationError) -> str:
    first, *more = error.errors(include_url=False)
    place, *field = first["loc"] or ("",)
    text = first["msg"].removeprefix("Value error, ")
    what = f"silence {place + 1}: " if isinstance(place, int) else ""
    inside = f"{'.'.join(map(str, field))}: " if field else ""
    others = f" (and {len(more)} more)" if more else ""
    return (
        f"stallwatch: {where}: {what}{inside}{text}{others}\n"
        "    hint: 'amtool silence query -o json' writes what is read here"
    )
