"""How long and how much is kept, class by class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.recording.manifest import Entry

DAY_MS = 86_400_000
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Keep:
    """A bound in age (of data, unix ms) and in bytes on disk for one class."""

    age_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Metrics 30 days, events and log 7 days, 10 GiB in all, as the configuration's defaults."""

    metrics: Keep = Keep(30 * DAY_MS, 8 * GIB)
    events: Keep = Keep(7 * DAY_MS, GIB)
    log: Keep = Keep(7 * DAY_MS, GIB)

    def of(self, kind: str) -> Keep:
        """The bounds of a class by its name."""
        return {"metrics": self.metrics, "events": self.events, "log": self.log}[kind]


_LAST_WORD = frozenset({"rules", "interval", "baselines"})
FOREVER = Retention(*(Keep(1 << 62, 1 << 62) for _ in range(3)))


def sealed_files(folder: str, entries: Sequence[Entry]) -> list[Entry]:
    """The files that a manifest tells of and that still exist, each once."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.get("type") == "sealed":
            for file in entry["files"]:
                found[file["name"]] = file
    return [file for file in found.values() if Path(folder, file["name"]).exists()]


def expire(
    folder: str, entries: Sequence[Entry], retention: Retention, now_ms: int
) -> list[tuple[str, str]]:
    """Remove what is over a bound, oldest first; (file name, reason) of each. Raises OSError."""
    removed = []
    files = sealed_files(folder, entries)
    for kind in ("metrics", "events", "log"):
        keep = retention.of(kind)
        own = sorted(
            (file for file in files if file["class"] == kind), key=lambda file: file["end_ms"]
        )
        total = sum(file["bytes"] for file in own)
        for file in own:
            reason = ""
            if file["end_ms"] < now_ms - keep.age_ms:
                reason = "age"
            elif total > keep.max_bytes:
                reason = "size"
            if not reason:
                break
            Path(folder, file["name"]).unlink(missing_ok=True)
            total -= file["bytes"]
            removed.append((file["name"], reason))
    return removed


def condense(folder: str, entries: Sequence[Entry], horizon_ms: int) -> list[Entry]:
    """The entries that still tell of something: files that exist, times from a horizon on.

    Of rules, intervals and how baselines learn the last word is kept, however old.
    """
    kept: list[Entry] = []
    last: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        kind = entry["type"]
        if kind in _LAST_WORD:
            last[kind, entry.get("file", ""), entry.get("group", "")] = entry
    for entry in entries:
        match entry["type"]:
            case "sealed" | "slots":
                found = _lasting(folder, entry, horizon_ms)
                if found.get("files") or found.get("slots"):
                    kept.append(found)
            case "removed":
                continue
            case "restart":
                kept += [entry] if entry["t"] >= horizon_ms else []
            case "snapshot":
                kept += [entry] if Path(folder, entry["name"]).exists() else []
            case "rules" | "interval" | "baselines":
                recent = entry.get("t", horizon_ms - 1) >= horizon_ms
                kept += [entry] if recent or any(entry is own for own in last.values()) else []
            case _:
                kept.append(entry)
    return kept


def _lasting(folder: str, entry: Entry, horizon_ms: int) -> Entry:
    found = dict(entry)
    if "files" in entry:
        found["files"] = [file for file in entry["files"] if Path(folder, file["name"]).exists()]
    rows = [
        {**row, "runs": [run for run in row["runs"] if run[1] >= horizon_ms]}
        for row in entry.get("slots", ())
    ]
    found["slots"] = [row for row in rows if row["runs"]]
    return found
