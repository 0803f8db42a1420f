"""How much of the past the live window must hold for the rules to see what a dry-run sees."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.promql.tall import shape_of
from engine.store.store import HOUR_MS
from rules.durations import format_duration
from rules.promql.reach import reach_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.rulegroup.options import GroupOptions
    from rules.model import RuleFile

LOG = logging.getLogger(__name__)
SHORTEST_MS = 2 * HOUR_MS
LONGEST_MS = 25 * HOUR_MS
# An evaluation can be late: what it reads must not have left the window in the meantime.
LATE_MS = HOUR_MS // 4


def live_window_ms(files: Iterable[RuleFile], options: GroupOptions) -> int:
    """The window, in milliseconds, that holds whatever the rules read.

    It is bounded, since it is memory: a rule that looks back farther is named in the log.
    """
    longest = SHORTEST_MS
    for group in (group for file in files for group in file.groups):
        for rule in group.rules:
            lookback_ms = options.engine.lookback_ms
            reach = max(reach_ms(own.tree, lookback_ms) for own in rule.expressions)
            needed = reach + options.offset_of(group) + LATE_MS
            if shape_of(rule.expression.tree).remembers:
                # Its memory is moved once an interval, from where it was.
                needed += options.interval_of(group)
            if needed > LONGEST_MS:
                LOG.warning(
                    "%s: rule %s looks back %s; live rules see at most %s, a dry-run sees all",
                    group.file, rule.name, format_duration(reach),
                    format_duration(LONGEST_MS - LATE_MS),
                )  # fmt: skip
            longest = max(longest, min(needed, LONGEST_MS))
    return longest
