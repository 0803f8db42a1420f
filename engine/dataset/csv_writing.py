"""Series written as CSV in long form; read back they are the same, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from engine.dataset.long_form import DERIVED, TIMESTAMP, VALUE, column_of_label
from engine.dataset.values import format_value
from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Series


def write_csv(file: TextIO, series: Sequence[Series], derived: Sequence[Series] = ()) -> None:
    """Write series; `derived` ones are flagged as what rules recorded.

    `file` is opened with newline="".
    """
    names = {name for one in (*series, *derived) for name, _ in one.labels} - {METRIC_NAME}
    labels = sorted(names)
    header = [TIMESTAMP, METRIC_NAME, VALUE, *map(column_of_label, labels)]
    file.write(_line([*header, DERIVED] if derived else header))
    for rows, flag in ((series, "false"), (derived, "true")):
        for one in rows:
            after = [one.labels.get(name) for name in labels]
            after += [flag] if derived else []
            tail = f",{_line(after)}" if after else "\n"
            between = f",{_field(one.labels.name)},"
            file.writelines(
                f"{time}{between}{format_value(value)}{tail}"
                for time, value in zip(one.timestamps_ms.tolist(), one.values, strict=True)
            )


def _line(fields: Sequence[str]) -> str:
    return ",".join(map(_field, fields)) + "\n"


def _field(text: str) -> str:
    # csv.writer leaves a lone carriage return bare, which every reader takes for a line's end.
    if any(char in text for char in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text
