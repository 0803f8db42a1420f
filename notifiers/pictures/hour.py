"""The last hour of an alert, asked of the agent's API: explained, or what its rule measures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

from engine.alerts.fingerprint import fingerprint
from engine.alerts.wording import inert
from engine.explanation.statistics import has_statistic
from engine.http.paths import EXPLAIN
from notifiers.receivers.http_config import HttpConfig, open_session
from notifiers.receivers.http_post import ask
from notifiers.receivers.receiver import SendError
from rules.promql.ast import Binary, NumberLiteral, Paren
from rules.promql.parser import parse
from rules.slotted import dataclass

if TYPE_CHECKING:
    from engine.alerts.alert import Alert
    from rules.promql.ast import Expr

Points: TypeAlias = tuple[tuple[float, float], ...]

HOUR_MS = 3_600_000
STEP_SECONDS = 15
MOST_SERIES = 5
MAX_ANSWER_BYTES = 4_000_000
_COMPARISONS = frozenset({">", ">=", "<", "<=", "==", "!="})


@dataclass(frozen=True, slots=True)
class Measured:
    """An expression without its comparison with a number; `threshold`: that number, or None."""

    expression: str
    threshold: float | None


@dataclass(frozen=True, slots=True)
class Hour:
    """`series`: a name and (unix seconds, value) of each. The hour ends at `end_ms`."""

    title: str
    end_ms: int
    threshold: float | None
    series: tuple[tuple[str, Points], ...]


def measured(expression: str) -> Measured:
    """What an alert's expression compares. Raises ProblemsError for what cannot be parsed."""
    tree = parse(expression)
    while isinstance(tree, Paren):
        tree = tree.expr
    if isinstance(tree, Binary) and str(tree.op) in _COMPARISONS:
        for side, other in ((tree.lhs, tree.rhs), (tree.rhs, tree.lhs)):
            if isinstance(other, NumberLiteral):
                return Measured(_text(expression, side), other.value)
    return Measured(expression, None)


def _text(expression: str, tree: Expr) -> str:
    return expression[tree.span.start : tree.span.end]


def expression_of(alert: Alert) -> str:
    """The expression in the alert's link, "" where it has none."""
    return parse_qs(urlsplit(alert.generator_url).query).get("query", [""])[0]


class History:
    """Asks the API at `url`, which only this machine reaches, for an hour of values."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = open_session(HttpConfig())

    def explained(self, alert: Alert, timeout_seconds: float) -> dict[str, Any] | None:
        """What the agent says of an alert, with what is to be drawn (docs/explain.md).

        None where the expression has no statistic of ours, or the agent has no such alert: it is
        over, or goes by other labels. Raises SendError, ProblemsError, ValueError.
        """
        expression = expression_of(alert)
        if alert.resolved_at_ms is not None or not expression:
            return None
        if not has_statistic(parse(expression)):
            return None
        query = {"fingerprint": fingerprint(alert.labels), "panels": "true"}
        try:
            answer = ask(
                self._session,
                f"{self._url}{EXPLAIN}?{urlencode(query)}",
                timeout_seconds,
                method="GET",
                answer_bytes=MAX_ANSWER_BYTES,
            )
        except SendError as error:
            if error.permanent:
                return None
            raise
        found: dict[str, Any] = json.loads(answer)["data"]
        return found if found["panels"] else None

    def hour(self, alert: Alert, end_ms: int, timeout_seconds: float) -> Hour | None:
        """None where nothing was measured. Raises SendError, ProblemsError, ValueError."""
        expression = expression_of(alert)
        if not expression:
            return None
        found = measured(expression)
        query = {
            "query": found.expression,
            "start": (end_ms - HOUR_MS) / 1000,
            "end": end_ms / 1000,
            "step": STEP_SECONDS,
            "timeout": f"{max(1, int(timeout_seconds))}s",
        }
        answer = ask(
            self._session,
            f"{self._url}/api/v1/query_range?{urlencode(query)}",
            timeout_seconds,
            method="GET",
            answer_bytes=MAX_ANSWER_BYTES,
        )
        data = json.loads(answer)["data"]
        if data["resultType"] != "matrix":
            return None
        series = [one for one in data["result"] if _is_of(one["metric"], alert)]
        shown = tuple(
            (_name(one["metric"]), _points(one["values"])) for one in series[:MOST_SERIES]
        )
        return Hour(inert(found.expression, 100), end_ms, found.threshold, shown) if shown else None


def _is_of(metric: dict[str, str], alert: Alert) -> bool:
    """Whether a series may be the alert's: what both have as a label is the same."""
    return all(
        alert.labels.get(name) in {"", value}
        for name, value in metric.items()
        if name != "__name__"
    )


def _name(metric: dict[str, str]) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in metric.items() if name != "__name__")
    return inert(metric.get("__name__", "") + (f" {shown}" if shown else ""), 60) or "value"


def _points(values: list[Any]) -> Points:
    return tuple((float(seconds), float(value)) for seconds, value in values)
