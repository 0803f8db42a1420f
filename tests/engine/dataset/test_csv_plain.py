"""The fast reader of plain CSV gives what the careful one gives, or leaves the file to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.dataset import csv_form
from engine.dataset.csv_form import read_csv
from engine.dataset.csv_plain import read_plain
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "timestamp,value,__name__,rank"
T = "1700000000000"
PLAIN = [
    f"{T},1,m,0\n{int(T) + 1},2.5,m,0\n{T},3,m,1\n",
    f"{T},5e-324,m,0\n{int(T) + 1},1e22,m,0\n{int(T) + 2},0.1,m,\n",
    f"{T},-0.0,m,0\n\n{int(T) + 1},1.7976931348623157e308,m,é\n",
    f"{int(T) + 1},1,m,0\n{T},2,m,0\n",
    f"{T},123456789012345678,m,NULL\n{T},.5,m,nan",
    *(f"{T},{value},m,0\n" for value in ("NaN", "stale", "+Inf", "-inf", " stale ", " 1 ", "nan")),
    f"{T},NaN(0x7ff8000000000001),m,0\n{int(T) + 1},1,m,0\n",
    *(
        f"{time},1,m,0\n{int(T) + 1},stale,m,1\n"
        for time in (
            "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.125Z", "2023-11-14T22:13:20.1257Z",
            "2023-11-14T22:13:20+01:00", "2023-11-14 22:13:20", "2023-11-14", "1.5e12", "1e3",
            " 2023-11-14T22:13:20Z", "1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z",
        )
    ),
    "2023-11-14T22:13:20Z,1,m,0\n2023-11-14T22:13:20.125Z,1,m,1\n",
]  # fmt: skip
OTHER = [
    *(f"{T},{value},m,0\n" for value in ("1e999", "NaN(0x0)", "_", "nan(", "1_0", "", "x", "0x1")),
    *(
        f"{time},1,m,0\n"
        for time in (
            "2023-02-31T22:13:20Z",
            "2023-11-14T24:13:20Z",
            "1700000000",
            "",
            "9" * 18,
            "9" * 25,
        )
    ),
    f"{T},1,m,0\n{T},1,m,0\n",
    f"{T},1,m,0\n{T},2,m,0\n",
    f'{T},1,m,"a,b"\n',
    f"{T},1,m\n",
    f"{T},1,m,0,0\n",
    f"{T},1,m,0\r\n",
    "",
]


def read(path: Path) -> object:
    """All that a reader gives, values as bits, or its complaint."""
    try:
        found = read_csv(str(path))
    except StallwatchError as error:
        return str(error)
    return found.notices, [
        (str(one.labels), one.timestamps_ms.tolist(), one.values.tobytes()) for one in found.series
    ]


@pytest.mark.parametrize("text", [*PLAIN, *OTHER])
def test_both_readers_agree(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"{HEADER}\n{text}", encoding="utf-8", newline="")
    is_plain = read_plain(str(path), HEADER.split(",")) is not None
    assert is_plain == (text in PLAIN)
    found = read(path)
    monkeypatch.setattr(csv_form, "read_plain", lambda _path, _header: None)
    assert read(path) == found
