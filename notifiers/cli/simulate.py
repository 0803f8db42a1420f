"""`stallwatch notify simulate`: who would have been told of the alerts of a dry-run, and when."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.alerts.alert import Alert, AlertState
from engine.labels import Labels
from notifiers.forecast.report import open_forecaster
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.model import Config
    from engine.forecasts import ForecastSettings

MAKE_ONE = "stallwatch dry-run RULES --data RECORDING --format json > alerts.json"


class _Told(BaseModel):
    """An alert of a dry-run; times are unix seconds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    labels: dict[str, str]
    annotations: dict[str, str] = {}
    active_at: float
    fired_at: float
    resolved_at: float | None = None


class _DryRun(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    start: float
    end: float
    alerts: tuple[_Told, ...]


def show_simulation(
    config: Config,
    names: Sequence[str],
    settings: ForecastSettings,
    *,
    each: bool,
    as_json: bool,
) -> int:
    """Print what `config` makes of a dry-run's alerts. Raises StallwatchError for a bad file."""
    if len(names) != 1:
        raise StallwatchError(f"stallwatch: name one file of alerts, - for stdin: {MAKE_ONE}")
    run = _read(names[0])
    alerts = [_alert(told) for told in run.alerts]
    start_ms, end_ms = round(run.start * 1000), round(run.end * 1000)
    forecaster = open_forecaster(config, settings, keeps_sent=each or as_json)
    report = forecaster.forecast(alerts, start_ms, end_ms)
    if as_json:
        print(json.dumps({**report.to_json(), "messages": report.messages()}, indent=2))
        return 0
    print(report.text())
    for line in report.each():
        print(line)
    return 0


def _read(name: str) -> _DryRun:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return _DryRun.model_validate_json(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StallwatchError(f"stallwatch: {name}: cannot be read: {reason}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise StallwatchError(
            f"stallwatch: {name}: {place}: {first['msg']}\n    hint: {MAKE_ONE}"
        ) from None


def _alert(told: _Told) -> Alert:
    over = told.resolved_at
    return Alert(
        labels=Labels(told.labels),
        annotations=told.annotations,
        state=AlertState.FIRING if over is None else AlertState.RESOLVED,
        value=0.0,
        active_at_ms=round(told.active_at * 1000),
        fired_at_ms=round(told.fired_at * 1000),
        resolved_at_ms=None if over is None else round(over * 1000),
    )
