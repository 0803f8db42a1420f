"""Series written as CSV in long form; read back they are the same, bit for bit."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TextIO

from engine.dataset.long_form import DERIVED, TIMESTAMP, VALUE, column_of_label
from engine.dataset.values import format_value
from engine.labels import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.series import Series


def write_csv(file: TextIO, series: Sequence[Series], derived: Sequence[Series] = ()) -> None:
    """Write series; `derived` ones are flagged as what rules recorded."""
    names = {name for one in (*series, *derived) for name, _ in one.labels} - {METRIC_NAME}
    labels = sorted(names)
    header = [TIMESTAMP, METRIC_NAME, VALUE, *map(column_of_label, labels)]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*header, DERIVED] if derived else header)
    for rows, flag in ((series, "false"), (derived, "true")):
        for one in rows:
            after = [one.labels.get(name) for name in labels]
            if derived:
                after.append(flag)
            writer.writerows(
                [time, one.labels.name, format_value(value), *after]
                for time, value in zip(one.timestamps_ms.tolist(), one.values, strict=True)
            )
