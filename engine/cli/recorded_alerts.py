"""The alerts of recorded data, each to be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.cli.data import open_noticed, read_time
from engine.cli.dry_run import tell_failures
from engine.explanation.data import Data
from engine.explanation.explaining import explain
from engine.explanation.question import Grounds
from engine.http.rule_status import encode_alert
from engine.pipeline.replay import replay
from engine.promql.blocks import workers_at_hand
from engine.promql.engine import Options
from engine.rulegroup.dependencies import metrics_asked
from engine.rulegroup.options import GroupOptions
from engine.timestamps import format_rfc3339
from rules.errors import StallwatchError
from rules.loader import load_paths
from rules.model import AlertingRule
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.alerts.alert import Alert


@dataclass(frozen=True, slots=True)
class Recorded:
    """Those that fired, as a dry-run has them, and the names of all alerting rules.

    `is_not`: what an alert is not that is none of these.
    """

    alerts: tuple[Alert, ...]
    names: set[str]
    grounds: Grounds
    is_not: str

    @classmethod
    def of(cls, data: str, rules: Sequence[str], at: str | None, config: str | None) -> Recorded:
        """Run rules over data, up to `at` if that is a time: then of what fires at that time.

        Raises StallwatchError.
        """
        files = load_paths(rules)
        own = [rule for file in files for group in file.groups for rule in group.rules]
        opened = open_noticed(data, names=metrics_asked(own))
        end_ms = None if at is None else read_time("--at", at)
        if end_ms is not None and end_ms < opened.start_ms:
            span = f"{format_rfc3339(opened.start_ms)} to {format_rfc3339(opened.end_ms)}"
            raise StallwatchError(
                f"stallwatch: --at is before the first sample\n    hint: the data span {span}"
            )
        result = replay(files, opened, opened.start_ms, end_ms, _options(config))
        tell_failures(result)
        alerts = [one for one in result.alerts if at is None or one.resolved_at_ms is None]
        left = result.left
        asked = Data(left.data, left.options.engine, left.folds)
        names = {rule.name for rule in own if isinstance(rule, AlertingRule)}
        grounds = Grounds(left.groups, asked, left.options.query_offset_ms)
        return cls(
            tuple(alerts),
            names,
            grounds,
            "does not fire then" if at else "does not fire in these data",
        )

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The alerts as the API shows them."""
        return [encode_alert(one) for one in self.alerts]

    def explained(self, place: int, *, with_panels: bool) -> dict[str, Any]:
        """The explanation of one of them. Raises StallwatchError."""
        return explain(self.alerts[place], self.grounds, with_panels=with_panels)


def _options(config: str | None) -> GroupOptions:
    engine = Options(workers=workers_at_hand())
    if config is None:
        return GroupOptions(engine=engine)
    from engine.config.loader import load_config

    return GroupOptions.of(load_config(config), engine)
