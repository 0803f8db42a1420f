"""What is timed: the expressions, and how much faster they are to be."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.data import COUNTER, GAUGE


@dataclass(frozen=True, slots=True)
class Row:
    """An expression. `data`: counters, gauges or all.

    `timed` filters so that little or nothing remains; `checked` is the same work with all its
    results, for the comparison. `same_in_victoria`: VictoriaMetrics means the same by it; its
    rate, increase and delta take the sample before the window in, and its look-back differs.
    `targets`: times faster than Prometheus and than VictoriaMetrics.
    """

    name: str
    data: str
    checked: str
    timed: str
    targets: tuple[float, float]
    same_in_victoria: bool = True


def _filtered(
    name: str, expression: str, limit: str, targets: tuple[float, float], data: str = "gauges"
) -> Row:
    timed = f"{expression} > {limit}"
    return Row(name, data, expression, timed, targets, same_in_victoria=data == "gauges")


EXPRESSIONS = (
    _filtered("rate-5m", f"rate({COUNTER}[5m])", "2e8", (10, 2), "counters"),
    _filtered("avg-5m", f"avg_over_time({GAUGE}[5m])", "15", (10, 1.2)),
    _filtered("avg-1h", f"avg_over_time({GAUGE}[1h])", "6", (50, 5)),
    _filtered("p99-5m", f"quantile_over_time(0.99, {GAUGE}[5m])", "20", (30, 8)),
    _filtered("p50-5m", f"quantile_over_time(0.5, {GAUGE}[5m])", "15", (15, 4)),
    _filtered("max-1h", f"max_over_time({GAUGE}[1h])", "22", (20, 8)),
    _filtered("stddev-1h", f"stddev_over_time({GAUGE}[1h])", "4", (80, 20)),
    Row(
        "tasks-and",
        "all",
        f"sum by (task_id) (rate({COUNTER}[5m])) and on (task_id) max by (task_id) ({GAUGE}) > 2",
        f"sum by (task_id) (rate({COUNTER}[5m])) > 1e8"
        f" and on (task_id) max by (task_id) ({GAUGE}) > 12",
        (10, 1.5),
        same_in_victoria=False,
    ),
)

# Ours against ours: the same with a window of 1 h and of 5 m.
WINDOWED = (
    ("rate", "counters", f"rate({COUNTER}[WINDOW])"),
    *(
        (name, "gauges", f"{name}_over_time({GAUGE}[WINDOW])")
        for name in ("avg", "sum", "min", "max", "stddev")
    ),
    ("changes", "gauges", f"changes({GAUGE}[WINDOW])"),
    ("deriv", "gauges", f"deriv({GAUGE}[WINDOW])"),
)
WINDOW_TARGET = 1.5
# No sample of the data set comes near it, so nothing remains.
NOTHING = "> 1e12"

PACK_TARGETS = (8.0, 2.0)
PACK_MEMORY_BYTES = 2**30
START_TARGET = 3.0
OTHERS = ("pack", "windows", "start", "tick")
NAMES = (*(row.name for row in EXPRESSIONS), *OTHERS)
