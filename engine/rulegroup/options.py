"""What every group of an engine shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode

from engine.address import local_url
from engine.baselines.anomaly.settings import Learning
from engine.baselines.settings import BaselineSettings
from engine.promql.engine import Options, evaluate
from engine.rulegroup.state import MAX_DOWN_MS
from rules.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.model import Config
    from engine.promql.value import Axis, Result
    from engine.series import Queryable
    from rules.model import Group
    from rules.promql.ast import Expr


class Evaluate(Protocol):
    """`engine.promql.engine.evaluate`, or a stand-in."""

    def __call__(self, expr: Expr, axis: Axis, queryable: Queryable, options: Options) -> Result:
        """The expression's value at every time of the axis. Raises EvaluationError."""
        ...


def baseline_settings(config: Config) -> BaselineSettings:
    """How baselines learn, by a configuration."""
    own = config.baselines
    learning = Learning(own.pause_learning, own.accept_points)
    return BaselineSettings(own.resolution.ms, own.ttl.ms, own.max_series, learning)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The global settings. `query_offset_ms` and `interval_ms` hold where a group says nothing.

    `external_labels` and `external_url` are what templates see. `listen`: where the API answers.
    `max_down_ms`: after a longer outage alert state starts anew. `engine.default_step_ms` follows
    `interval_ms`. `baselines`: how they learn, None for what a recording says of it.
    """

    interval_ms: int = 10_000
    query_offset_ms: int = 0
    external_labels: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""
    listen: str = ""
    max_down_ms: int = MAX_DOWN_MS
    engine: Options = field(default_factory=Options)
    evaluate: Evaluate = evaluate
    baselines: BaselineSettings | None = None

    def __post_init__(self) -> None:
        # A subquery's default step is the global interval, never the group's.
        engine = replace(self.engine, default_step_ms=self.interval_ms)
        object.__setattr__(self, "engine", engine)

    def generator_url(self, expression: str) -> str:
        """Where to see what an alert's expression gives now; "" where no API is known.

        Prometheus links to its graph page. We have none, so it is the query itself on our API: a
        link that always answers.
        """
        base = self.external_url or (local_url(self.listen) if self.listen else "")
        return f"{base.rstrip('/')}/api/v1/query?{urlencode({'query': expression})}" if base else ""

    @classmethod
    def of(cls, config: Config, engine: Options | None = None) -> GroupOptions:
        """The settings of a configuration; `engine` for what it does not say."""
        return cls(
            interval_ms=config.evaluation_interval.ms,
            external_labels=config.external_labels,
            external_url=config.external_url,
            listen=config.listen,
            max_down_ms=config.restart_grace.ms,
            engine=replace(engine or Options(), lookback_ms=config.lookback.ms),
            baselines=baseline_settings(config) if "baselines" in config.model_fields_set else None,
        )

    def interval_of(self, group: Group) -> int:
        """The group's evaluation interval in milliseconds."""
        return self.interval_ms if group.interval_ms is None else group.interval_ms

    def offset_of(self, group: Group) -> int:
        """The group's query offset in milliseconds."""
        return self.query_offset_ms if group.query_offset_ms is None else group.query_offset_ms
