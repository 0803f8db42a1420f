"""An hour's journal becomes Parquet in a child; where it fails, the journal is tried again."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

from engine.recording import child as children
from engine.recording.hourly import journal_name, seal

if TYPE_CHECKING:
    from engine.recording.manifest import Entry

# A day's journal that nobody could seal is still done within it.
TIMEOUT_SECONDS = 600.0


def seal_apart(folder: str, stem: str) -> Entry:
    """`hourly.seal` in a child. Raises OSError, also when the child died or took too long."""
    journal = str(Path(folder, journal_name(stem)))
    with children.start(__name__, folder, stem) as child:
        try:
            output, errors = child.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            raise _failed(f"took more than {TIMEOUT_SECONDS:g} s", journal) from None
    try:
        answer = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise _failed(children.ending(child, errors), journal) from None
    if "errno" in answer:
        raise OSError(answer["errno"], answer["strerror"], answer["filename"])
    return cast("Entry", answer)


def main(folder: str, stem: str) -> None:
    """The child: the manifest entry, or what the system refused, as one line of JSON."""
    try:
        answer = dict(seal(folder, stem))
    except OSError as error:
        answer = {
            "errno": error.errno or errno.EIO,
            "strerror": error.strerror or str(error),
            "filename": str(error.filename or folder),
        }
    print(json.dumps(answer), flush=True)


def _failed(why: str, journal: str) -> OSError:
    return OSError(errno.EIO, f"the process that writes the hour's Parquet {why}", journal)
