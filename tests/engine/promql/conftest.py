"""Series written as in a test script, and expressions evaluated over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from engine.promql.engine import Options, evaluate
from engine.promql.value import Axis, Vector
from rules.promql.parser import parse
from tests.promqltest.script import Load, parse_script
from tests.promqltest.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.promql.value import Result


@dataclass(frozen=True)
class Data:
    """Loaded series that can be asked."""

    storage: MemoryStorage

    def on(self, expr: str, axis: Axis, options: Options | None = None) -> Result:
        """The whole result over an axis."""
        return evaluate(parse(expr), axis, self.storage, options or Options())

    def points(
        self, expr: str, axis: Axis, options: Options | None = None
    ) -> dict[str, dict[int, float]]:
        """A vector as {series: {time in seconds: value}}."""
        value = self.on(expr, axis, options).value
        assert isinstance(value, Vector)
        rows = zip(value.labels, value.values.tolist(), value.present.tolist(), strict=True)
        times = (axis.times_ms // 1000).tolist()
        return {
            str(labels): {
                time: number for time, number, here in zip(times, row, present, strict=True) if here
            }
            for labels, row, present in rows
        }

    def at(self, seconds: int, expr: str, options: Options | None = None) -> dict[str, float]:
        """A vector at one time, as {series: value}."""
        points = self.points(expr, Axis.instant(seconds * 1000), options)
        return {labels: row[seconds] for labels, row in points.items() if row}


@pytest.fixture(scope="session")
def load() -> Callable[[str], Data]:
    """Series from the lines of a `load` command, the step first."""

    def loader(script: str) -> Data:
        (command,) = parse_script(f"load {script.strip()}")
        assert isinstance(command, Load)
        storage = MemoryStorage()
        storage.load(command)
        return Data(storage)

    return loader
