"""Writes a recording: what the agent saw, safe against kill -9 up to the last flush."""

from __future__ import annotations

import errno
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset.errors import DataError
from engine.recording.hourly import journal_name, journals, seal, write_hour
from engine.recording.journal import Journal
from engine.recording.lock import FolderLock
from engine.recording.manifest import VERSION, Manifest
from engine.recording.retention import Retention, condense, expire, sealed_files
from engine.recording.snapshots import drop_from, expire_snapshots, snapshots_of, write_snapshot
from engine.timestamps import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.flush import Flush, TaskEvent
    from engine.labels import Labels
    from engine.recording.manifest import Entry
    from engine.recording.slots import Run
    from engine.series import Float64Array, Series

HOUR_MS = 3_600_000
# A month of one group's slots takes about a tenth of it.
CONDENSE_BYTES = 1 << 20
# Readers expand runs: a clock that leaps from 1970 to today must not cost each of them gigabytes.
MOST_SKIPPED = 1_000_000


class Recorder:
    """A recording folder, opened for writing; one process at a time.

    Opening makes the folder, takes its lock, and finishes what a killed agent left. It raises
    DataError when the folder cannot be used. From then on no failure to write raises: the call
    returns False, `write_failures_total` grows, `failing` says why (None once writing works
    again) and `on_failure` is called with that text, once for each outage. `recovered_bytes` is
    what was cut from torn tails at open. `seal_hour` makes Parquet of a journal, here or elsewhere
    (`sealing.seal_apart`).
    """

    def __init__(
        self,
        path: str,
        *,
        node: str = "",
        flush_interval_ms: int = 10_000,
        retention: Retention | None = None,
        on_failure: Callable[[str], None] | None = None,
        seal_hour: Callable[[str, str], Entry] = seal,
    ) -> None:
        self.path = path
        self.write_failures_total = 0
        self.failing: str | None = None
        self.recovered_bytes = 0
        self.retention = Retention() if retention is None else retention
        self._on_failure = on_failure
        self._seal_hour = seal_hour
        self._guard = threading.RLock()
        # Held while hours are sealed; taken before _guard, never after it.
        self._sealing = threading.Lock()
        self._sealer: threading.Thread | None = None
        self._journal: Journal | None = None
        self._manifest: Manifest | None = None
        self._closed = False
        self._stem = ""
        self._hour = -1
        self._newest_ms = 0
        self._condense_above = CONDENSE_BYTES
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(path)
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            self._open(node, flush_interval_ms)
        except OSError as error:
            self._lock.release()
            raise _unusable(path, error) from None
        except DataError:
            self._lock.release()
            raise

    def write(self, flush: Flush) -> bool:
        """Append a flush. True: it is on disk, and a kill or power cut will not take it back."""
        return self._write(
            flush.timestamp_ms,
            lambda journal: journal.write_samples(
                flush.timestamp_ms, flush.labels, flush.values, flush.events, durable=True
            ),
        )

    def write_samples(
        self, timestamp_ms: int, labels: Sequence[Labels], values: Float64Array
    ) -> bool:
        """Append what rules recorded; a replay computes it anew and does not read it."""
        return self._write(
            timestamp_ms,
            lambda journal: journal.write_samples(timestamp_ms, labels, values, derived=True),
        )

    def log_evaluated(self, file: str, group: str, timestamp_ms: int) -> bool:
        """A group was evaluated at a time."""
        return self._write(
            timestamp_ms, lambda journal: journal.write_slot(file, group, timestamp_ms)
        )

    def log_skipped(self, file: str, group: str, run: Run, timestamp_ms: int, reason: str) -> bool:
        """A group missed the times (first, last, step), as is known at a time.

        `reason`: `down` (before a start), `overrun`, ... Of a run longer than MOST_SKIPPED the
        last ones are logged.
        """
        first, last, step = run
        run = (max(first, last - (MOST_SKIPPED - 1) * step), last, step)
        return self._write(
            timestamp_ms, lambda journal: journal.write_run(file, group, run, reason)
        )

    def write_log(self, timestamp_ms: int, line: str) -> bool:
        """Append a line of the agent's own log (JSON)."""
        return self._write(timestamp_ms, lambda journal: journal.write_log(timestamp_ms, line))

    def log_restart(self, timestamp_ms: int) -> bool:
        """The agent started."""
        return self._enter({"type": "restart", "t": timestamp_ms})

    def log_rules(self, rules_hash: str, timestamp_ms: int) -> bool:
        """The rules in force from a time on."""
        return self._enter({"type": "rules", "hash": rules_hash, "t": timestamp_ms})

    def log_interval(self, file: str, group: str, interval_ms: int) -> bool:
        """The evaluation interval of a group."""
        return self._enter(
            {"type": "interval", "file": file, "group": group, "interval_ms": interval_ms}
        )

    def log_baselines(self, settings: Mapping[str, int], timestamp_ms: int) -> bool:
        """How baselines learn from a time on."""
        return self._enter({"type": "baselines", "t": timestamp_ms, **settings})

    def write_snapshot(self, timestamp_ms: int, content: bytes) -> bool:
        """Keep what baselines had learnt by a time."""
        try:
            entry = write_snapshot(self.path, timestamp_ms, content)
        except OSError as error:
            return self._failed(error)
        return self._enter(entry)

    def snapshots(self) -> tuple[tuple[int, str], ...]:
        """(time, path) of what baselines had learnt, oldest first."""
        with self._guard:
            return snapshots_of(self.path, self._entries())

    def write_hour(
        self,
        start_ms: int,
        plain: Sequence[Series],
        derived: Sequence[Series],
        events: Sequence[TaskEvent] = (),
    ) -> int:
        """Add whole files, named by an hour; how many were written. Raises OSError."""
        with self._guard:
            if not (plain or derived or events) or self._manifest is None:
                return 0
            stem = self._free_stem(start_ms // HOUR_MS)
            # What baselines have learnt did not come from these.
            for name in drop_from(self.path, self._entries(), start_ms):
                self._manifest.append({"type": "removed", "name": name, "reason": "import"})
            entry = write_hour(self.path, stem, plain, derived, events)
            self._manifest.append(entry)
            return len(entry["files"])

    def adopt(self, entry: Entry) -> bool:
        """Append another recording's manifest entry."""
        return self._enter(entry)

    def close(self) -> None:
        """Finish the open hour as Parquet and let the folder go. Twice is fine."""
        with self._guard:
            journal, self._journal = self._journal, None
            self._closed = True
        if self._sealer is not None:
            self._sealer.join()
        try:
            if journal is not None:
                journal.close()
            self._seal_all()
        except OSError as error:
            self._failed(error)
        with self._guard:
            manifest, self._manifest = self._manifest, None
        if manifest is not None:
            manifest.close()
            self._lock.release()

    def _open(self, node: str, flush_interval_ms: int) -> None:
        manifest = self._manifest = Manifest(self.path)
        self.recovered_bytes = manifest.content.torn_bytes
        if not any(entry["type"] == "recording" for entry in manifest.entries):
            manifest.append(
                {
                    "type": "recording",
                    "version": VERSION,
                    "node": node,
                    "flush_interval_ms": flush_interval_ms,
                }
            )
        files = sealed_files(self.path, manifest.entries)
        self._newest_ms = max((file["end_ms"] for file in files), default=0)
        for leftover in Path(self.path).glob("*.tmp"):
            leftover.unlink()
        self._seal_all()

    @property
    def _aged_to_ms(self) -> int:
        """The time that age is counted from: that of the data, which may be an import's.

        Never ahead of the clock, or one sample from a wrong future would expire everything.
        """
        return min(self._newest_ms, int(time.time() * 1000))

    def _seal_all(self) -> None:
        """Turn every closed journal into Parquet. Raises OSError; what is left is tried again."""
        with self._sealing:
            for stem in journals(self.path):
                self._seal(stem)
            with self._guard:
                entries = list(self._entries())
            for name, reason in expire(self.path, entries, self.retention, self._aged_to_ms):
                self._add({"type": "removed", "name": name, "reason": reason})
            self._expire_snapshots()
            self._condense()

    def _expire_snapshots(self) -> None:
        with self._guard:
            entries = list(self._entries())
        files = sealed_files(self.path, entries)
        starts = [file["start_ms"] for file in files if file["class"] == "metrics"]
        if not starts:
            return
        # As much as the agent's own log may have.
        found = expire_snapshots(self.path, entries, min(starts), self.retention.log.max_bytes)
        for name, reason in found:
            self._add({"type": "removed", "name": name, "reason": reason})

    def _seal(self, stem: str) -> None:
        with self._guard:
            if self._journal is not None and stem == self._stem:
                return
            sealed = {entry["stem"] for entry in self._entries() if entry["type"] == "sealed"}
        if stem not in sealed:
            entry = self._seal_hour(self.path, stem)
            self.recovered_bytes += entry.get("torn_bytes", 0)
            self._add(entry)
            ends = [file["end_ms"] for file in entry["files"]]
            self._newest_ms = max([self._newest_ms, *ends])
        Path(self.path, journal_name(stem)).unlink()

    def _condense(self) -> None:
        """Keep the manifest bounded: once it has doubled, leave out what has expired."""
        with self._guard:
            manifest = self._manifest
            if manifest is not None and manifest.size > self._condense_above:
                horizon_ms = self._aged_to_ms - self.retention.metrics.age_ms
                manifest.rewrite(condense(self.path, manifest.entries, horizon_ms))
                self._condense_above = max(CONDENSE_BYTES, 2 * manifest.size)

    def _add(self, entry: Entry) -> None:
        with self._guard:
            if self._manifest is not None:
                self._manifest.append(entry)

    def _write(self, timestamp_ms: int, append: Callable[[Journal], None]) -> bool:
        with self._guard:
            if self._closed:
                return False
            try:
                append(self._journal_at(timestamp_ms))
            except OSError as error:
                refused = error
            else:
                self._newest_ms = max(self._newest_ms, timestamp_ms)
                self.failing = None
                return True
        return self._failed(refused)

    def _enter(self, entry: Entry) -> bool:
        with self._guard:
            if self._manifest is None:
                return False
            try:
                self._manifest.append(entry)
            except OSError as error:
                refused = error
            else:
                return True
        return self._failed(refused)

    def _journal_at(self, timestamp_ms: int) -> Journal:
        hour = timestamp_ms // HOUR_MS
        if self._journal is not None and hour > self._hour:
            self._roll()
        if self._journal is None:
            stem = self._free_stem(hour)
            self._journal = Journal(str(Path(self.path, journal_name(stem))))
            self._stem, self._hour = stem, hour
        return self._journal

    def _free_stem(self, hour: int) -> str:
        """`YYYYMMDDTHH`, with `-N` if the hour has files of an earlier start."""
        try:
            base = (EPOCH + timedelta(hours=hour)).strftime("%Y%m%dT%H")
        except OverflowError:  # before year 1 or after 9999
            base = f"hour{hour}"
        taken = {
            path.name.partition("-")[2].partition(".")[0] for path in Path(self.path).iterdir()
        }
        taken |= {entry["stem"] for entry in self._entries() if entry["type"] == "sealed"}
        count, stem = 0, base
        while stem in taken:
            count += 1
            stem = f"{base}-{count}"
        return stem

    def _entries(self) -> Sequence[Entry]:
        return () if self._manifest is None else self._manifest.entries

    def _roll(self) -> None:
        """Close the open hour; a thread makes Parquet of it while the next one is written."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        if self._sealer is None or not self._sealer.is_alive():
            self._sealer = threading.Thread(target=self._seal_quietly, name="sealer", daemon=True)
            self._sealer.start()

    def _seal_quietly(self) -> None:
        """A failure is counted; the journal stays and is tried again an hour later."""
        try:
            self._seal_all()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> bool:
        """Without _guard: whoever is told logs it, and the log, which is recorded, waits for it."""
        self.write_failures_total += 1
        why = f"{error.filename or self.path}: {error.strerror or error}"
        # Once for each outage: a full disk refuses several writes a flush, for hours.
        is_news, self.failing = why != self.failing, why
        if is_news and self._on_failure is not None:
            self._on_failure(why)
        return False


def _unusable(path: str, error: OSError) -> DataError:
    where = error.filename or path
    if isinstance(error, PermissionError):
        hint = f"choose a folder that {_user()} may write, or change its owner"
    elif isinstance(error, FileExistsError | NotADirectoryError):
        hint = "a recording is a folder; give the path of one, or of one to be made"
    elif error.errno == errno.EROFS:
        hint = "choose a folder that can be written (state_dir in stallwatch.yaml)"
    elif error.errno == errno.EIO:
        hint = "move that file away; what it holds is then missing"
    else:
        hint = "free some space, or choose another folder"
    return DataError(str(where), f"cannot record here: {error.strerror or error}", hint)


def _user() -> str:
    return f"uid {os.geteuid()}"
