"""`stallwatch notify simulate`: who would have been told of the alerts of a dry-run, and when."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.alerts.alert import Alert, AlertState
from engine.alerts.wording import inert
from engine.labels import Labels
from engine.timestamps import format_rfc3339
from notifiers.dispatch.group import is_firing
from notifiers.dispatch.log import NotificationLog
from notifiers.dispatch.opening import addressees, open_dispatcher
from notifiers.integrations import integrations
from notifiers.origin import Origin
from notifiers.routing.plan import Plan
from notifiers.simulation import Sent, simulate, transitions
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.config.model import Config

# Hours of the local clock at which a message wakes somebody.
NIGHT_BEGINS, NIGHT_ENDS = 22, 7
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


def show_simulation(config: Config, names: Sequence[str], *, each: bool, as_json: bool) -> int:
    """Print what `config` makes of a dry-run's alerts. Raises StallwatchError for a bad file."""
    if len(names) != 1:
        raise StallwatchError(f"stallwatch: name one file of alerts, - for stdin: {MAKE_ONE}")
    run = _read(names[0])
    sent = list(_simulate(config, run))
    rows = _rows(config, sent)
    if as_json:
        shown = [_record(one) for one in sent]
        print(json.dumps({"integrations": rows, "messages": shown}, indent=2))
        return 0
    days = (run.end - run.start) / 86_400
    print(f"{len(run.alerts)} alerts in {days:.3g} days would have been told so:\n")
    width = max([len(row["integration"]) for row in rows] or [11])
    print(f"{'integration':<{width}}  messages  repeats  at night ({NIGHT_BEGINS}-{NIGHT_ENDS} h)")
    for row in rows:
        counts = f"{row['messages']:>8}  {row['repeats']:>7}  {row['at_night']:>8}"
        print(f"{inert(row['integration']):<{width}}  {counts}")
    for one in sent if each else ():
        print(_line(one))
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


def _simulate(config: Config, run: _DryRun) -> list[Sent]:
    to = addressees(integrations(config))
    if not to:
        raise StallwatchError("stallwatch: the configuration names no receiver (see --config)")
    dispatcher = open_dispatcher(Plan.of(config), to, Origin.of(config), NotificationLog())
    return list(simulate(dispatcher, transitions(map(_alert, run.alerts)), round(run.end * 1000)))


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


def _rows(config: Config, sent: Sequence[Sent]) -> list[dict[str, Any]]:
    keys = [one.key for one in integrations(config) if one.hears]
    rows: dict[str, dict[str, Any]] = {
        key: {"integration": key, "messages": 0, "repeats": 0, "at_night": 0} for key in keys
    }
    for one in sent:
        row = rows[one.message.integration]
        row["messages"] += 1
        row["repeats"] += one.message.reason == "repeat interval elapsed"
        row["at_night"] += _is_night(one.time_ms)
    return list(rows.values())


def _is_night(time_ms: int) -> bool:
    hour = datetime.fromtimestamp(time_ms / 1000).astimezone().hour
    return hour >= NIGHT_BEGINS or hour < NIGHT_ENDS


def _record(one: Sent) -> dict[str, Any]:
    message = one.message
    told = [(is_firing(each), message.labels_of(each).to_dict()) for each in message.alerts]
    return {
        "time": one.time_ms / 1000,
        "receiver": message.receiver,
        "integration": message.integration,
        "group": message.group_key,
        "reason": message.reason,
        "firing": [labels for fires, labels in told if fires],
        "resolved": [labels for fires, labels in told if not fires],
    }


def _line(one: Sent) -> str:
    firing = sum(map(is_firing, one.message.alerts))
    counts = f"{firing} firing, {len(one.message.alerts) - firing} resolved"
    group = inert(one.message.group_key)
    when = format_rfc3339(one.time_ms)
    return f"{when}  {one.message.integration}  {group}  {counts}: {one.message.reason}"
