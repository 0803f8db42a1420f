"""Draws an explanation's panels. matplotlib is optional, and asked for only here."""

from __future__ import annotations

import io
import math
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.alerts.wording import inert
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

# matplotlib's dates are days since 1970.
DAY_SECONDS: Final = 86_400.0
PANEL_INCHES: Final = 2.4
MOST_NAMED: Final = 6


def save(found: Mapping[str, Any], path: str) -> None:
    """Write the picture of an explanation with panels as PNG.

    Raises StallwatchError without matplotlib, without anything to draw and for a path that cannot
    be written.
    """
    try:
        drawn = png(found)
    except ImportError as error:
        raise StallwatchError(
            f"stallwatch explain: --picture needs matplotlib: {error}\n"
            "    hint: pip install 'stallwatch[pictures]', or 'matplotlib>=3.8'"
        ) from error
    try:
        Path(path).write_bytes(drawn)
    except OSError as error:
        said = error.strerror or str(error)
        raise StallwatchError(f"stallwatch explain: cannot write {path}: {said}") from error


def png(found: Mapping[str, Any]) -> bytes:
    """The picture. Raises ImportError without matplotlib, StallwatchError without panels."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = found["panels"]
    if not panels:
        raise StallwatchError(
            "stallwatch explain: there is nothing to draw: the expression has no value in that hour"
        )
    # A label is text, and no formula.
    with mpl.rc_context({"text.parse_math": False, "font.size": 8}):
        size = (8.0, PANEL_INCHES * len(panels) + 0.5)
        figure = Figure(figsize=size, dpi=100, layout="constrained")
        figure.suptitle(_title(found), fontsize=9)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
        for axes, panel in zip(grid[:, 0], panels, strict=True):
            _draw(axes, panel, found)
        grid[-1, 0].set_xlabel("UTC")
        out = io.BytesIO()
        figure.savefig(out, format="png")
    return out.getvalue()


def _title(found: Mapping[str, Any]) -> str:
    labels = {name: own for name, own in found["labels"].items() if name != "alertname"}
    pairs = ", ".join(f"{name}={own}" for name, own in sorted(labels.items()))
    return inert(f"{found['alertname']}  {pairs}", 140)


def _draw(axes: Axes, panel: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    from matplotlib.dates import DateFormatter

    peers = sum(1 for line in panel["lines"] if not line["is_own"])
    for line in reversed(panel["lines"]):
        _plot(axes, line, is_named=line["is_own"] or peers <= MOST_NAMED)
    low, high = axes.get_ylim()
    if (threshold := _finite(panel["threshold"])) is not None:
        axes.axhline(threshold, color="tab:red", linestyle="--", label=f"threshold {threshold:.6g}")
    if panel["expected"]:
        bounds = [_finite(bound) for bound in panel["expected"]]
        below, above = (
            edge if bound is None else bound
            for bound, edge in zip(bounds, (low, high), strict=True)
        )
        axes.axhspan(below, above, color="tab:green", alpha=0.15, label="expected")
    for name in ("active_at", "fired_at"):
        moment = found[name]
        if moment is not None and panel["start"] <= moment <= panel["end"]:
            style = ":" if name == "active_at" else "-."
            said = "active" if name == "active_at" else "fired"
            axes.axvline(moment / DAY_SECONDS, color="black", linestyle=style, label=said)
    axes.set_xlim(panel["start"] / DAY_SECONDS, panel["end"] / DAY_SECONDS)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M", tz=timezone.utc))  # type: ignore[no-untyped-call]
    said = f"\n{inert(panel['said'], 140)}" if panel["said"] else ""
    axes.set_title(f"{inert(panel['expr'], 110)}{said}", fontsize=8)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize=7, loc="best")


def _plot(axes: Axes, line: Mapping[str, Any], *, is_named: bool) -> None:
    points = [(seconds, _finite(value)) for seconds, value in line["points"]]
    shown = [(seconds, value) for seconds, value in points if value is not None]
    name = ", ".join(f"{own}={value}" for own, value in sorted(line["labels"].items()))
    axes.plot(
        [seconds / DAY_SECONDS for seconds, _ in shown],
        [value for _, value in shown],
        # What begins with an underscore would be left out of the legend.
        label=(inert(name, 60).lstrip("_") or "value") if is_named else "_",
        linewidth=1.8 if line["is_own"] else 0.8,
        color="tab:blue" if line["is_own"] else "0.6",
    )


def _finite(value: float | str | None) -> float | None:
    """A number that can be drawn; infinities and NaN are words."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None
