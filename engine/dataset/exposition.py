"""OpenMetrics and Prometheus text with timestamps: read into series, and OpenMetrics written.

Formats: the OpenMetrics 1.0 specification (seconds, ends with `# EOF`) and Prometheus' text
exposition format 0.0.4 (milliseconds). Histograms and summaries are the classic series that their
lines spell; exemplars are read over. Of OpenMetrics 2.0 native histograms (`{count:2,...}` as a
value) and start timestamps (`st@` and a time, after the sample's own) are read too; `_created`
lines are series like any other unless they are to be start timestamps. A sample without a timestamp
has no place in recorded data.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import numpy as np

from engine.dataset.assembly import Assembly, rows_read
from engine.dataset.created import with_starts
from engine.dataset.dataset import MemoryDataset
from engine.dataset.errors import DataError
from engine.dataset.exposition_plain import PlainLines
from engine.dataset.long_form import SECONDS_NOTICE, looks_like_seconds
from engine.dataset.openmetrics_histogram import read_openmetrics, write_openmetrics_histogram
from engine.dataset.times import EARLIEST_MS, LATEST_MS
from engine.dataset.values import overflows
from engine.labels import METRIC_NAME, Labels
from engine.native_histogram import HistogramError
from engine.series import stale_mask
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.series import Series

_BLOCK = r'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}'
# The value of a native histogram: `{count:12,sum:3.4,schema:0,positive_spans:[0:2],...}`.
_NATIVE = r"\{\w+:[^{}\"=]*\}"
_SAMPLE = re.compile(
    rf"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*((?!{_NATIVE}){_BLOCK})?\s*(?<=[\s}}])"
    rf"({_NATIVE}|[^\s#{{]+)(?:\s+([^\s#]+?))?(?:\s+st@([^\s#]+))?\s*(?:#\s*\{{.*)?"
)
_LABEL = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|([a-zA-Z_][a-zA-Z0-9_]*))\s*(?:=\s*"((?:[^"\\]|\\.)*)"\s*)?(,|$)'
)
_TYPE = re.compile(r'# TYPE (?:"((?:[^"\\]|\\.)*)"|(\S+)) (\w+)')
_ESCAPE = re.compile(r'\\(["\\n])')
_CHUNK = 200_000


def read_exposition(path: str, *, created: bool = False) -> MemoryDataset:
    """Read a file; `created`: OpenMetrics' `_created` lines are start timestamps and no series.

    Raises DataError with `file:line`.
    """
    seconds = _ends_with_eof(path)
    return _Reader(path, seconds=seconds, created=created and seconds).read()


@dataclass(slots=True)
class _Rows:
    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    # What few rows have, by row.
    texts: dict[int, str] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)

    def samples(self) -> Series:
        """All rows as arrays."""
        texts = starts = None
        if self.texts:
            texts = np.array([self.texts.get(row) for row in range(len(self.times))], dtype=object)
        if self.starts:
            starts = np.zeros(len(self.times), dtype=np.int64)
            starts[list(self.starts)] = list(self.starts.values())
        times = np.array(self.times, dtype=np.int64)
        return rows_read(times, np.array(self.values, dtype=np.float64), texts, starts)


class _Reader:
    def __init__(self, path: str, *, seconds: bool, created: bool) -> None:
        self.path, self.seconds, self.created = path, seconds, created
        self.types: dict[str, str] = {}
        self.histograms: dict[str, str] = {}
        self.assembly = Assembly()
        self.known: dict[tuple[str | None, str | None], int] = {}
        self.lines: list[np.ndarray] = []
        self.rows = _Rows()
        self.plain = PlainLines(seconds=seconds)

    def read(self) -> MemoryDataset:
        if not self.seconds and self.path.endswith((".om", ".openmetrics")):
            raise DataError(
                self.path,
                "does not end with '# EOF', as OpenMetrics must",
                "was the file cut short? Prometheus text (milliseconds) is named .prom or .txt",
            )
        with Path(self.path).open("rb") as file:
            self._read_lines(file)
        found = self.assembly.build()
        if not found.series:
            raise DataError(self.path, "holds no samples", 'expected lines like: up{a="b"} 1 TIME')
        notices = found.notices(
            lambda conflict: f"{self.path}:{np.concatenate(self.lines)[conflict.row]}"
        )
        if not self.seconds and all(looks_like_seconds(one.timestamps_ms) for one in found.series):
            notices.append(SECONDS_NOTICE)
        series = with_starts(found.series, self.types) if self.created else found.series
        return MemoryDataset(series, tuple(notices))

    def _read_lines(self, file: BinaryIO) -> None:
        number = ended = 0
        for number, raw in enumerate(file, start=1):
            if not ended and self.plain.take(raw):
                if len(self.plain.lines) >= _CHUNK:
                    self._take_plain(number)
                continue
            self._take_plain(number - 1)
            line = self._decoded(number, raw)
            if line.strip() == "# EOF":
                ended = number
            elif ended and line.strip():
                raise DataError(
                    f"{self.path}:{number}", "there is text after '# EOF'", "'# EOF' ends a file"
                )
            elif line.strip() and not line.lstrip().startswith("#"):
                self._take(number, line)
            elif self.created and (told := _TYPE.match(line)):
                quoted, plain, kind = told.groups()
                self.types[_unescape(quoted) if plain is None else plain] = kind
        self._take_plain(number)
        self._keep()

    def _decoded(self, number: int, raw: bytes) -> str:
        try:
            return raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise DataError(
                f"{self.path}:{number}",
                "is not UTF-8 text",
                "convert it, for example: iconv -f latin1 -t utf-8",
            ) from None

    def _take_plain(self, last: int) -> None:
        """Take the plain lines that wait; the last of them is line `last`."""
        if not self.plain.lines:
            return
        lines, found = self.plain.taken()
        first = last - len(lines) + 1
        if found is None:
            for number, raw in enumerate(lines, start=first):
                self._take(number, self._decoded(number, raw))
            return
        numbers, times, values = found
        self.rows.numbers += numbers
        self.rows.times += times
        self.rows.values += values
        self.rows.lines += range(first, last + 1)
        if len(self.rows.lines) >= _CHUNK:
            self._keep()

    def _take(self, number: int, line: str) -> None:
        rows = self.rows
        place = f"{self.path}:{number}"
        match = _SAMPLE.fullmatch(line.rstrip("\r\n"))
        if match is None:
            raise DataError(
                place,
                f"is no sample: {line.strip()[:80]}",
                'expected: name{label="value"} VALUE TIME',
            )
        name, block, value, time, start = match.groups()
        key = (name, block)
        if key not in self.known:
            self.known[key] = self.assembly.number(_labels(place, name, block))
        if time is None:
            raise DataError(
                place,
                "the sample has no timestamp",
                "recorded data needs the time of each sample; a scrape of /metrics has none",
            )
        if start is None and value[0] != "{":
            self.plain.learn(line, f"{name or ''}{block or ''}", f"{value} {time}", self.known[key])
        row = len(rows.values)
        if value.startswith("{"):
            rows.texts[row], value = self._histogram(place, value), "NaN"
        if start is not None:
            rows.starts[row] = self._time(place, start)
        rows.numbers.append(self.known[key])
        rows.times.append(self._time(place, time))
        rows.values.append(_number(place, "value", value))
        rows.lines.append(number)
        if len(rows.lines) >= _CHUNK:
            self._keep()

    def _histogram(self, place: str, text: str) -> str:
        if text not in self.histograms:
            try:
                self.histograms[text] = read_openmetrics(text)
            except HistogramError as error:
                what = f"cannot read the histogram: {error}"
                raise DataError(place, what, "expected: {count:2,sum:3,schema:0,...}") from None
        return self.histograms[text]

    def _time(self, place: str, text: str) -> int:
        time = _number(place, "timestamp", text)
        time_ms = time * 1000 if self.seconds else time
        if not EARLIEST_MS <= time_ms <= LATEST_MS:
            unit = "seconds" if self.seconds else "milliseconds"
            hint = f"a number of {unit} here, years 1 to 9999 (with '# EOF': seconds)"
            raise DataError(place, f"cannot read the timestamp '{text}'", hint)
        if not self.seconds and time != int(time):
            raise DataError(
                place,
                f"the timestamp '{text}' is not a whole number of milliseconds",
                "OpenMetrics has seconds and ends with '# EOF'; Prometheus text has milliseconds",
            )
        return round(time_ms)

    def _keep(self) -> None:
        rows, self.rows = self.rows, _Rows()
        self.assembly.add(np.array(rows.numbers, dtype=np.int64), rows.samples())
        self.lines.append(np.array(rows.lines, dtype=np.int64))


def _labels(place: str, name: str | None, block: str | None) -> Labels:
    found = {} if name is None else {METRIC_NAME: name}
    text = (block or "{}")[1:-1].strip()
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise DataError(place, f"cannot read the labels {block}", 'expected: {a="b",c="d"}')
        quoted, plain, value, _ = match.groups()
        label = _unescape(quoted) if plain is None else plain
        if value is None:
            # `{"a name", x="y"}` is how a name that is no identifier is written.
            label, value = METRIC_NAME, label
        if label in found:
            raise DataError(place, f"the label '{label}' appears twice", "remove one")
        found[label] = _unescape(value)
        at = match.end()
    if not found.get(METRIC_NAME):
        raise DataError(place, "the sample has no metric name", 'expected: name{a="b"} VALUE TIME')
    return Labels(found)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def _number(place: str, what: str, text: str) -> float:
    try:
        # Python reads 1_000 as a number, the formats do not.
        number = float(text.replace("_", "?"))
    except ValueError:
        raise DataError(place, f"cannot read the {what} '{text}'", "expected a number") from None
    if overflows(text, number):
        raise DataError(place, f"cannot read the {what} '{text}'", "it is too large; +Inf is data")
    return number


def _ends_with_eof(path: str) -> bool:
    with Path(path).open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 64))
        tail = file.read()
        if tail.rstrip().endswith(b"# EOF"):
            return True
        file.seek(0)
        return any(line.strip() == b"# EOF" for line in file)


def write_openmetrics(file: TextIO, series: Iterable[Series]) -> int:
    """Write series as OpenMetrics; returns how many staleness markers had to be left out."""
    markers = 0
    for one in series:
        prefix = one.labels.spelled(",")
        stale = stale_mask(one.values)
        markers += int(stale.sum())
        kept = one if not stale.any() else one.picked(~stale)
        pairs = zip(kept.timestamps_ms.tolist(), kept.values.tolist(), strict=True)
        lines = (f"{prefix} {_spelled(value)} {_seconds(time)}\n" for time, value in pairs)
        file.writelines(lines if kept.is_plain else _with_more(prefix, kept))
    file.write("# EOF\n")
    return markers


def _with_more(prefix: str, series: Series) -> Iterator[str]:
    """The lines of a series with native histograms or start timestamps."""
    size = series.values.size
    texts = [None] * size if series.histograms is None else series.histograms.tolist()
    starts = [0] * size if series.starts_ms is None else series.starts_ms.tolist()
    rows = zip(series.timestamps_ms.tolist(), series.values.tolist(), texts, starts, strict=True)
    for time, value, text, start in rows:
        shown = _spelled(value) if text is None else write_openmetrics_histogram(text)
        since = f" st@{_seconds(start)}" if start else ""
        yield f"{prefix} {shown} {_seconds(time)}{since}\n"


def _spelled(value: float) -> str:
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(text := repr(value), text)


def _seconds(time_ms: int) -> str:
    sign, time_ms = ("-", -time_ms) if time_ms < 0 else ("", time_ms)
    return f"{sign}{time_ms // 1000}.{time_ms % 1000:03d}".rstrip("0").rstrip(".")
