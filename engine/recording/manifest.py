"""`manifest.jsonl`: what a recording holds; JSON lines with a checksum, append-only.

A line is `{"crc32":"89abcdef","entry":{...}}`, the checksum being that of the entry's compact
JSON. A torn last line is what a kill leaves and is cut; a bad line elsewhere is skipped, and both
are reported.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from engine.dataset.errors import DataError
from engine.recording.framing import put_file, sync_folder, write_all
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME = "manifest.jsonl"
VERSION = 1

Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ManifestContent:
    """The entries in order. `good_bytes`: where the last whole line ends."""

    entries: tuple[Entry, ...]
    good_bytes: int
    torn_bytes: int
    bad_lines: tuple[int, ...]


def read_manifest(folder: str) -> ManifestContent:
    """Read a manifest; one that is absent is empty.

    Raises DataError if it was written by a newer version or cannot be read.
    """
    path = Path(folder, NAME)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ManifestContent((), 0, 0, ())
    except OSError as error:
        raise DataError(
            str(path), f"cannot be read: {error.strerror}", "check who owns it"
        ) from None
    good = content.rfind(b"\n") + 1
    entries, bad = [], []
    for number, line in enumerate(content[:good].splitlines(), start=1):
        entry = _entry(line)
        if entry is None:
            bad.append(number)
        else:
            entries.append(entry)
    for entry in entries:
        version = entry.get("version", VERSION)
        if entry.get("type") == "recording" and version != VERSION:
            raise DataError(
                str(path),
                f"is of format version {version}, this stallwatch reads version {VERSION}",
                "upgrade stallwatch, or record into another folder",
            )
    return ManifestContent(tuple(entries), good, len(content) - good, tuple(bad))


class Manifest:
    """Appends entries to a recording's manifest."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.content = read_manifest(folder)
        self.entries: list[Entry] = list(self.content.entries)
        self.size = self.content.good_bytes
        self._descriptor = self._opened()
        os.ftruncate(self._descriptor, self.size)

    def append(self, entry: Entry) -> None:
        """Append an entry and make it durable. After an OSError the file is as before."""
        content = _line(entry)
        try:
            write_all(self._descriptor, content)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(content)
        self.entries.append(entry)

    def rewrite(self, entries: Sequence[Entry]) -> None:
        """Put a new manifest in the old one's place. After an OSError the old one is there."""
        content = b"".join(map(_line, entries))
        put_file(Path(self._folder, NAME), content)
        os.close(self._descriptor)
        self._descriptor = self._opened()
        self.entries, self.size = list(entries), len(content)
        sync_folder(self._folder)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _opened(self) -> int:
        path = str(Path(self._folder, NAME))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _line(entry: Entry) -> bytes:
    text = _compact(entry)
    return f'{{"crc32":"{zlib.crc32(text.encode()):08x}","entry":{text}}}\n'.encode()


def _entry(line: bytes) -> Entry | None:
    try:
        row = json.loads(line)
        entry = row["entry"]
        expected = int(row["crc32"], 16)
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(entry, dict) or zlib.crc32(_compact(entry).encode()) != expected:
        return None
    return entry if _well_formed(entry) else None


# Fields that readers count on, by type of entry; other types are a newer version's.
_FIELDS: Final[dict[str, dict[str, type]]] = {
    "sealed": {"stem": str, "files": list},
    "restart": {"t": int},
    "rules": {"t": int, "hash": str},
    "interval": {"file": str, "group": str, "interval_ms": int},
    "removed": {"name": str},
    "baselines": {"t": int},
    "snapshot": {"name": str, "t": int, "bytes": int},
}
_FILE_FIELDS: Final[dict[str, type]] = {"name": str, "class": str, "start_ms": int, "end_ms": int}
_SLOT_FIELDS: Final[dict[str, type]] = {"file": str, "group": str, "runs": list}


def _well_formed(entry: Entry) -> bool:
    if not isinstance(entry.get("type"), str) or not _has(entry, _FIELDS.get(entry["type"], {})):
        return False
    files, slots = entry.get("files", []), entry.get("slots", [])
    return (
        isinstance(files, list)
        and isinstance(slots, list)
        and all(_has(row, _SLOT_FIELDS) for row in slots)
        # A file of the folder, nowhere else.
        and all(_has(one, _FILE_FIELDS) and Path(one["name"]).name == one["name"] for one in files)
    )


def _has(row: object, fields: Mapping[str, type]) -> bool:
    return isinstance(row, dict) and all(
        isinstance(row.get(name), kind) for name, kind in fields.items()
    )


def _compact(entry: Entry) -> str:
    return json.dumps(entry, separators=(",", ":"), sort_keys=True)
