"""Series written as CSV in long form; read back they are the same, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from engine.dataset.long_form import DERIVED, HISTOGRAM, START, TIMESTAMP, VALUE, column_of_label
from engine.dataset.values import format_value
from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.series import Series


def write_csv(file: TextIO, series: Sequence[Series], derived: Sequence[Series] = ()) -> None:
    """Write series; `derived` ones are flagged as what rules recorded.

    `file` is opened with newline="".
    """
    names = {name for one in (*series, *derived) for name, _ in one.labels} - {METRIC_NAME}
    labels = sorted(names)
    both = (*series, *derived)
    starts = any(one.starts_ms is not None for one in both)
    natives = any(one.histograms is not None for one in both)
    header = [TIMESTAMP, METRIC_NAME, VALUE]
    header += [name for name, there in ((START, starts), (HISTOGRAM, natives)) if there]
    header += map(column_of_label, labels)
    file.write(_line([*header, DERIVED] if derived else header))
    for rows, flag in ((series, "false"), (derived, "true")):
        for one in rows:
            after = [one.labels.get(name) for name in labels]
            after += [flag] if derived else []
            tail = f",{_line(after)}" if after else "\n"
            between = f",{_field(one.labels.name)},"
            file.writelines(
                f"{time}{between}{text}{tail}"
                for time, text in zip(
                    one.timestamps_ms.tolist(),
                    _samples(one, starts=starts, natives=natives),
                    strict=True,
                )
            )


def _samples(series: Series, *, starts: bool, natives: bool) -> Iterator[str]:
    """The fields of each sample: its value, and its start and histogram where there are such."""
    plain = map(format_value, series.values)
    if not starts and not natives:
        yield from plain
        return
    began = [0] * series.values.size if series.starts_ms is None else series.starts_ms.tolist()
    texts = [None] * len(began) if series.histograms is None else series.histograms.tolist()
    for value, start_ms, text in zip(plain, began, texts, strict=True):
        fields = [value if text is None else ""]
        fields += [str(start_ms) if start_ms else ""] if starts else []
        fields += [text or ""] if natives else []
        yield ",".join(map(_field, fields))


def _line(fields: Sequence[str]) -> str:
    return ",".join(map(_field, fields)) + "\n"


def _field(text: str) -> str:
    # csv.writer leaves a lone carriage return bare, which every reader takes for a line's end.
    if any(char in text for char in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text
