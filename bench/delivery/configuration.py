"""The alertmanager.yml that both sides read; only the receiver's address differs."""

from __future__ import annotations

import time

GROUP_WAIT_SECONDS = 1
GROUP_INTERVAL_SECONDS = 3
# Between two ticks: on one, a millisecond would decide whether a group repeats itself. The first
# tick after it is the sixth.
REPEAT_SECONDS = 16

_TEXT = """\
route:
  receiver: everyone
  group_by: [cluster, alertname]
  group_wait: 1s
  group_interval: 3s
  repeat_interval: 16s
  routes:
    - {matchers: [alertname="Late"], receiver: late, group_by: ['...']}
    - matchers: [severity="critical"]
      receiver: pager
      group_by: [cluster, node]
      continue: true
    - matchers: ['team=~"net|fabric"', zone!=""]
      receiver: network
      group_by: [cluster, team, zone]
      routes:
        - matchers: ['alertname!~"Slow|Hot"', node=~"n1|n2"]
          receiver: pair
          group_by: ['...']
          continue: true
        - {matchers: [zone="b"], receiver: nightly, mute_time_intervals: [sometimes]}
    - matchers: [team="gpu"]
      receiver: office
      group_by: [cluster, region]
      repeat_interval: 10s
      active_time_intervals: [often]
      continue: true
    - {matchers: ['node=~"n3|n4"'], receiver: pair, group_by: [cluster, node, zone]}
inhibit_rules:
  - {source_matchers: [alertname="Down"], target_matchers: ['alertname=~"Slow|Hot"'], equal: [node]}
  - {source_matchers: [severity="critical", zone="b"], target_matchers: [severity="warning"],
     equal: [zone, team]}
  - {source_matchers: ['alertname=~"Down|Wait"'], target_matchers: ['alertname=~"Down|Slow"'],
     equal: [zone]}
receivers:
  - {name: everyone, webhook_configs: [{url: "URL/everyone"}]}
  - {name: late, webhook_configs: [{url: "URL/late"}]}
  - {name: pager, webhook_configs: [{url: "URL/pager"}]}
  - {name: network, webhook_configs: [{url: "URL/network"}]}
  - {name: nightly, webhook_configs: [{url: "URL/nightly"}]}
  - {name: office, webhook_configs: [{url: "URL/office"}]}
  - name: pair
    webhook_configs: [{url: "URL/pair"}, {url: "URL/unresolved", send_resolved: false}]
time_intervals:
  - {name: sometimes, time_intervals: [{times: [SOMETIMES]}]}
  - {name: often, time_intervals: [{times: [OFTEN]}]}
"""
# Webhooks that do not ask for resolutions.
UNRESOLVED = frozenset({"unresolved"})
# The day's minutes in which `sometimes` holds, and `often` does: by the minute since 1970.
_SOMETIMES = {0}
_OFTEN = {0, 2}


def alertmanager_yml(url: str, minutes: int) -> str:
    """The file. `minutes`: for how long the time intervals shall change, from now on."""
    return (
        _TEXT.replace("URL", url)
        .replace("SOMETIMES", _minutes(_SOMETIMES, 2, minutes))
        .replace("OFTEN", _minutes(_OFTEN, 3, minutes))
    )


def _minutes(which: set[int], period: int, count: int) -> str:
    now = int(time.time() // 60)
    held = (minute for minute in range(now, now + count + 2) if minute % period in which)
    return ", ".join(
        f'{{start_time: "{_clock(minute % 1440)}", end_time: "{_clock(minute % 1440 + 1)}"}}'
        for minute in held
    )


def _clock(minute_of_day: int) -> str:
    return f"{minute_of_day // 60:02}:{minute_of_day % 60:02}"
