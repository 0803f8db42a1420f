"""Reads a recording, also one that an agent is still writing."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.dataset import MemoryDataset
from engine.dataset.errors import DataError
from engine.dataset.parquet_reading import read_parquet
from engine.matching import Selection
from engine.recording.file_cache import FileCache
from engine.recording.hour_files import HourFiles
from engine.recording.hourly import journal_name, journals, series_of
from engine.recording.joined import JoinedHours
from engine.recording.journal import JournalContent, read_journal
from engine.recording.manifest import NAME, read_manifest
from engine.recording.retention import sealed_files
from engine.recording.slots import Slots, expand
from engine.recording.snapshots import snapshots_of
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.flush import TaskEvent
    from engine.recording.manifest import Entry
    from engine.series import Series
    from rules.promql.ast import Matcher

_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Part:
    """A metrics file, or the open hour in memory, and the times it spans."""

    start_ms: int
    end_ms: int
    path: str
    content: MemoryDataset | None = None


class Recording:
    """A recording opened for reading: a `Dataset` that also knows its evaluations.

    `select` leaves out what rules recorded, because a replay records it anew;
    `with_derived()` is the view that has it.
    """

    def __init__(self, path: str, names: frozenset[str] | None = None) -> None:
        """`names`: the only metrics that will be asked for, if that is known."""
        self.path = path
        self._derived = False
        self._files = FileCache()
        self._hours = HourFiles(names)
        manifest = read_manifest(path)
        self._entries = manifest.entries
        sealed = {entry["stem"] for entry in self._entries if entry.get("type") == "sealed"}
        files = sealed_files(path, self._entries)
        self._open_hours = _open_hours(path, sealed)
        self._parts = [
            Part(file["start_ms"], file["end_ms"], str(Path(path, file["name"])))
            for file in files
            if file["class"] == "metrics"
        ]
        self._event_files = [
            Part(file["start_ms"], file["end_ms"], str(Path(path, file["name"])))
            for file in files
            if file["class"] == "events"
        ]
        for content in self._open_hours.values():
            plain, flagged = series_of(content)
            self._add(MemoryDataset(plain, derived=flagged))
        unlisted = _unlisted(path, {file["name"] for file in files}, set(self._open_hours))
        for name in unlisted:
            if name.startswith("metrics-"):
                self._add(read_parquet(str(Path(path, name))))
            else:
                self._event_files.append(Part(-_EVER, _EVER, str(Path(path, name))))
        self._parts.sort(key=lambda part: part.start_ms)
        self._joined = JoinedHours(self._parts, self._hours.read, self._chosen)
        self._joined_derived = JoinedHours(
            self._parts, self._hours.read, lambda whole: whole.derived
        )
        torn = sum(content.torn_bytes for content in self._open_hours.values())
        self.notices = (
            *_notices(path, torn + manifest.torn_bytes, manifest.bad_lines, unlisted),
            *(
                f"{path}: {name} is missing, its hour has no data"
                for name in _missing(path, self._entries)
            ),
        )

    @property
    def start_ms(self) -> int:
        """The time of the first sample, unix milliseconds."""
        return min((part.start_ms for part in self._parts), default=0)

    @property
    def end_ms(self) -> int:
        """The time of the last sample, unix milliseconds."""
        return max((part.end_ms for part in self._parts), default=0)

    @property
    def series_count(self) -> int:
        """Series with at least one sample; reads the labels of files that were not read so far."""
        found = self._hours.labels(self._parts, derived=self._derived)
        for part in self._parts:
            if part.content is not None:
                found.update(one.labels for one in self._chosen(part.content))
        return len(found)

    @property
    def node(self) -> str:
        """The node that was recorded."""
        return str(self._head.get("node", ""))

    @property
    def flush_interval_ms(self) -> int:
        """The interval of flushes."""
        return int(self._head.get("flush_interval_ms", 10_000))

    @property
    def restarts(self) -> tuple[int, ...]:
        """When the agent started, unix milliseconds."""
        return tuple(entry["t"] for entry in self._entries if entry["type"] == "restart")

    @property
    def rules(self) -> tuple[tuple[int, str], ...]:
        """(time, hash) of the rules that were in force from a time on."""
        found = [entry for entry in self._entries if entry["type"] == "rules"]
        return tuple((entry["t"], entry["hash"]) for entry in found)

    @property
    def intervals(self) -> dict[tuple[str, str], int]:
        """Evaluation interval in milliseconds by (file, group), the last one logged."""
        found = [entry for entry in self._entries if entry["type"] == "interval"]
        return {(entry["file"], entry["group"]): entry["interval_ms"] for entry in found}

    @property
    def baselines(self) -> Entry | None:
        """How baselines learnt, the last word on it; None if nothing was said."""
        found = [entry for entry in self._entries if entry["type"] == "baselines"]
        return found[-1] if found else None

    def snapshots(self) -> tuple[tuple[int, str], ...]:
        """(time in unix milliseconds, path) of what baselines had learnt, oldest first."""
        return snapshots_of(self.path, self._entries)

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """(file, group) of every group with a logged slot."""
        return tuple(sorted({(row["file"], row["group"]) for row in self._slot_rows()}))

    def slots(self, file: str, group: str) -> Slots:
        """Evaluated and skipped times of a group."""
        own = [row for row in self._slot_rows() if (row["file"], row["group"]) == (file, group)]
        return Slots(
            expand(run for row in own if "reason" not in row for run in row["runs"]),
            expand(run for row in own if "reason" in row for run in row["runs"]),
        )

    def with_derived(self) -> Recording:
        """The same recording with what rules recorded in it."""
        other = copy(self)
        other._derived = True  # noqa: SLF001 - its own class
        other._joined = JoinedHours(self._parts, self._hours.read, other._chosen)  # noqa: SLF001
        return other

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """See `engine.series.Queryable`. Raises DataError if a file of the range is broken."""
        return self._joined.select(Selection(matchers).name, matchers, start_ms, end_ms)

    def select_derived(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> list[Series]:
        """As `select`, of what rules recorded and of nothing else."""
        return self._joined_derived.select(Selection(matchers).name, matchers, start_ms, end_ms)

    def events(
        self, task_id: str, start_ms: int, end_ms: int, visible_at_ms: int
    ) -> Sequence[TaskEvent]:
        """See `engine.flush.EventSource`. Raises DataError if a file of the range is broken."""
        found = [
            event
            for event in self.all_events(start_ms, end_ms)
            if event.task_id == task_id and event.flush_ms <= visible_at_ms
        ]
        return sorted(found, key=lambda event: event.time_ms)

    def all_events(self, start_ms: int, end_ms: int) -> list[TaskEvent]:
        """Events of every task with start <= time <= end, in no particular order."""
        found = [event for content in self._open_hours.values() for event in content.events]
        for file in self._event_files:
            if file.start_ms <= end_ms and file.end_ms >= start_ms:
                found += self._files.events(file.path).recorded_events
        return [event for event in found if start_ms <= event.time_ms <= end_ms]

    def history(self) -> list[Entry]:
        """Manifest entries that tell of the agent and not of files, slots included."""
        kept = [
            entry
            for entry in self._entries
            if entry["type"] in {"restart", "rules", "interval", "baselines"}
        ]
        return [*kept, {"type": "slots", "slots": self._slot_rows()}]

    @property
    def _head(self) -> Entry:
        return next((entry for entry in self._entries if entry["type"] == "recording"), {})

    def _slot_rows(self) -> list[Entry]:
        rows = [row for entry in self._entries for row in entry.get("slots", ())]
        for content in self._open_hours.values():
            rows += content.slots.to_json()
        return rows

    def _add(self, content: MemoryDataset) -> None:
        """A part that is in memory."""
        both = (*content.series, *content.derived)
        if both:
            start = min(int(one.timestamps_ms[0]) for one in both)
            end = max(int(one.timestamps_ms[-1]) for one in both)
            self._parts.append(Part(start, end, "", content))

    def _chosen(self, whole: MemoryDataset) -> Sequence[Series]:
        return [*whole.series, *whole.derived] if self._derived else whole.series


def open_recording(path: str) -> Recording:
    """Open a recording folder. Raises DataError if it is none or cannot be read."""
    if not is_recording(path):
        raise DataError(
            path,
            "is not a recording: it has no manifest.jsonl",
            "a recording is a folder that 'stallwatch record' or 'stallwatch run' made",
        )
    return Recording(path)


def is_recording(path: str) -> bool:
    """True for a folder with a manifest."""
    return Path(path, NAME).is_file()


def _open_hours(path: str, sealed: set[str]) -> dict[str, JournalContent]:
    """Journals that are not Parquet yet, by stem."""
    found = {}
    for stem in journals(path):
        if stem in sealed:
            continue
        name = str(Path(path, journal_name(stem)))
        try:
            found[stem] = read_journal(name)
        except FileNotFoundError:
            # The agent has just sealed it; its Parquet files are found as unlisted ones.
            continue
        except OSError as error:
            raise DataError(
                name, f"cannot be read: {error.strerror}", "check who owns it"
            ) from None
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(
                name, f"is no journal of this format ({error})", "move it away; its hour is missing"
            ) from None
    return found


def _unlisted(path: str, listed: set[str], open_hours: set[str]) -> list[str]:
    """Files that no manifest entry tells of: its line was damaged, or is being written."""
    return sorted(
        file.name
        for kind in ("metrics", "events")
        for file in Path(path).glob(f"{kind}-*.parquet")
        if file.name not in listed and file.stem.partition("-")[2] not in open_hours
    )


def _missing(path: str, entries: Sequence[Entry]) -> list[str]:
    """Metrics files that somebody took away; what retention removed is logged as such."""
    removed = {entry["name"] for entry in entries if entry["type"] == "removed"}
    return sorted(
        file["name"]
        for entry in entries
        for file in entry.get("files", ())
        if file["class"] == "metrics"
        and file["name"] not in removed
        and not Path(path, file["name"]).exists()
    )


def _notices(
    path: str, torn_bytes: int, bad_lines: Sequence[int], unlisted: Sequence[str]
) -> tuple[str, ...]:
    notices = []
    if torn_bytes:
        notices.append(f"{path}: {torn_bytes} bytes of an unfinished write were left out")
    if bad_lines:
        numbers = ", ".join(map(str, bad_lines))
        notices.append(f"{path}/{NAME}: lines that are damaged were left out: {numbers}")
    if unlisted:
        notices.append(
            f"{path}: read though the manifest does not list them: {', '.join(unlisted)}"
        )
    return tuple(notices)
