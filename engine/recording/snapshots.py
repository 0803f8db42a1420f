"""Snapshots of what baselines have learnt, one beside each hour's files.

They are a cache of a fold over the data: one that is lost is missed by nobody for long. Of those
older than the data the newest is kept, since what is left of the data is folded on from there.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from engine.recording.framing import put_file, sync_folder
from engine.timestamps import EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.recording.manifest import Entry

_SUFFIX = ".swb"


def write_snapshot(folder: str, time_ms: int, content: bytes) -> Entry:
    """Write one whole; the manifest entry to append. Raises OSError."""
    name = f"baselines-{_stem(time_ms)}{_SUFFIX}"
    put_file(Path(folder, name), content)
    sync_folder(folder)
    return {"type": "snapshot", "name": name, "t": time_ms, "bytes": len(content)}


def snapshots_of(folder: str, entries: Sequence[Entry]) -> tuple[tuple[int, str], ...]:
    """(time in unix milliseconds, path) of those that a manifest tells of, oldest first."""
    found = {
        entry["name"]: (entry["t"], str(Path(folder, entry["name"])))
        for entry in entries
        if entry.get("type") == "snapshot"
    }
    return tuple(sorted(one for one in found.values() if Path(one[1]).exists()))


def expire_snapshots(
    folder: str, entries: Sequence[Entry], oldest_ms: int, max_bytes: int
) -> list[tuple[str, str]]:
    """Remove what nobody goes on from: (file name, reason) of each. Raises OSError.

    `oldest_ms`: where the data begin. The newest one stays whatever its size.
    """
    found = snapshots_of(folder, entries)
    total = sum(Path(path).stat().st_size for _, path in found)
    removed = []
    for (_, path), (next_ms, _) in pairwise(found):
        reason = "age" if next_ms <= oldest_ms else "size" if total > max_bytes else ""
        if not reason:
            break
        total -= Path(path).stat().st_size
        Path(path).unlink()
        removed.append((Path(path).name, reason))
    return removed


def drop_from(folder: str, entries: Sequence[Entry], start_ms: int) -> list[str]:
    """Remove those that data from `start_ms` on have made untrue; their names. Raises OSError."""
    gone = [path for time_ms, path in snapshots_of(folder, entries) if time_ms >= start_ms]
    for path in gone:
        Path(path).unlink()
    return [Path(path).name for path in gone]


def _stem(time_ms: int) -> str:
    try:
        return (EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y%m%dT%H%M%S")
    except OverflowError:  # before year 1 or after 9999
        return str(time_ms)
