"""Draws an explanation or an hour: JSON on standard input, a PNG on standard output.

It runs in a process of its own, so that matplotlib takes no memory of the agent's and cannot hold
up or break what sends messages.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import timezone
from typing import Any

from engine.explanation.picture import png

# matplotlib's dates are days since 1970.
DAY_SECONDS = 86_400.0


def main() -> None:
    """Draw what is described there."""
    shown = json.load(sys.stdin.buffer)
    sys.stdout.buffer.write(png(shown) if "panels" in shown else draw(shown))


def draw(hour: dict[str, Any]) -> bytes:
    """The PNG of `title`, `end_ms`, `threshold` and `series`."""
    import io

    import matplotlib as mpl

    mpl.use("Agg")
    # A label is text, and no formula.
    mpl.rcParams["text.parse_math"] = False
    from matplotlib.dates import DateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 2.6), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    for name, points in hour["series"]:
        finite = [(seconds, value) for seconds, value in points if math.isfinite(value)]
        axes.plot(
            [seconds / DAY_SECONDS for seconds, _ in finite],
            [value for _, value in finite],
            label=name.lstrip("_"),
            linewidth=1.2,
        )
    if hour["threshold"] is not None and math.isfinite(hour["threshold"]):
        axes.axhline(hour["threshold"], color="tab:red", linestyle="--", label="threshold")
    end = hour["end_ms"] / 1000
    axes.set_xlim((end - 3600) / DAY_SECONDS, end / DAY_SECONDS)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M", tz=timezone.utc))  # type: ignore[no-untyped-call]
    axes.set_xlabel("UTC", fontsize=8)
    axes.set_title(hour["title"], fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize=7, loc="upper left")
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


if __name__ == "__main__":
    main()
