"""The agent's own `stallwatch_*` metrics: one table of names, sampled like any other series."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, TypeAlias

from engine.labels import METRIC_NAME, Labels
from engine.series import STALE_NAN
from rules.slotted import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Kind: TypeAlias = Literal["counter", "gauge"]
OwnSample: TypeAlias = "tuple[str, tuple[tuple[str, str], ...], str, float]"
"""(name, labels, "counter" or "gauge", value)."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a metric is, for `# TYPE` and `# HELP` and the documentation."""

    kind: Kind
    text: str


METRICS: dict[str, Description] = {
    "stallwatch_build_info": Description("gauge", "1, labelled with the version."),
    "stallwatch_probe_up": Description("gauge", "1 attached, 0 not; `reason` says why."),
    "stallwatch_probe_produced_total": Description(
        "counter", "Kernel events that passed a probe's filter, counted in the kernel."
    ),
    "stallwatch_probe_consumed_total": Description(
        "counter", "Kernel events whose decoded values entered aggregation."
    ),
    "stallwatch_probe_lost_total": Description(
        "counter", "Kernel events lost on the way, by reason."
    ),
    "stallwatch_probe_map_entries": Description(
        "gauge", "Entries in a probe's kernel map; above its limit the next ones are lost."
    ),
    "stallwatch_probe_map_limit": Description(
        "gauge", "How many entries a probe's kernel map can hold."
    ),
    "stallwatch_probe_mode": Description(
        "gauge", "1 for the mode a probed function is in: full, colder, duty, sampled, detached."
    ),
    "stallwatch_probe_overhead_ratio": Description(
        "gauge", "Share of its CPU time that a probed function's traps took of the worst process."
    ),
    "stallwatch_probe_error_ratio": Description(
        "gauge",
        "Error bound of a probed function's counts, as a share of them, of the worst process.",
    ),
    "stallwatch_sampler_up": Description(
        "gauge", "1 while functions are sampled, 0 if they cannot be; `reason` says why."
    ),
    "stallwatch_sampler_overhead_ratio": Description(
        "gauge", "What the sampler's program takes of each CPU that is not idle."
    ),
    "stallwatch_probe_trap_seconds": Description(
        "gauge", "What a uprobe's trap costs here: entry (emulated), entry_stepped, exit."
    ),
    "stallwatch_queue_depth": Description("gauge", "Readings that wait for aggregation."),
    "stallwatch_flushes_total": Description("counter", "Flushes written."),
    "stallwatch_flushes_missed_total": Description(
        "counter", "Flush times that passed while the agent could not run."
    ),
    "stallwatch_stage_faults_total": Description(
        "counter", "Faults of the agent's own that cost a reading, a flush or a slot, by stage."
    ),
    "stallwatch_flush_seconds": Description("gauge", "Time the last flush took."),
    "stallwatch_tasks": Description("gauge", "Tasks with a live process here."),
    "stallwatch_series_refused_total": Description(
        "counter", "Readings refused because the bound of series was reached."
    ),
    "stallwatch_store_series": Description("gauge", "Series in the live window."),
    "stallwatch_store_bytes": Description(
        "gauge", "Memory held by the samples of the live window."
    ),
    "stallwatch_store_dropped_total": Description(
        "counter", "Samples the live window did not take, by reason."
    ),
    "stallwatch_recording_up": Description("gauge", "1 while the recording takes writes."),
    "stallwatch_recording_failures_total": Description("counter", "Failed recording writes."),
    "stallwatch_state_up": Description(
        "gauge", "1 while alert state reaches the disk, in a file that is still there."
    ),
    "stallwatch_state_mended_total": Description(
        "counter",
        "How often state.db had to be mended: damaged (what can be read was taken over), deleted "
        "(or replaced; written anew), newer (of a later version; begun anew).",
    ),
    "stallwatch_evaluations_total": Description("counter", "Evaluated group slots, by group."),
    "stallwatch_evaluations_skipped_total": Description(
        "counter", "Group slots that were not evaluated, by group and reason."
    ),
    "stallwatch_evaluation_seconds": Description(
        "gauge", "Time the last evaluation of a group took."
    ),
    "stallwatch_rule_failures_total": Description("counter", "Failed rule evaluations, by rule."),
    "stallwatch_template_failures_total": Description(
        "counter", "Annotations or labels whose template failed."
    ),
    "stallwatch_baseline_ready": Description(
        "gauge", "Share of a baseline's series that have learnt enough to be scored, 0 to 1."
    ),
    "stallwatch_baseline_series": Description("gauge", "Series that a baseline remembers."),
    "stallwatch_baseline_evicted_total": Description(
        "counter", "Series that a baseline forgot because of the bound baselines.max_series."
    ),
    "stallwatch_alerts": Description("gauge", "Alerts by state."),
    "stallwatch_notify_sent_total": Description(
        "counter", "Notifications that a receiver has taken."
    ),
    "stallwatch_notify_failed_total": Description(
        "counter",
        "Notifications given up: rejected (the receiver will not have it), expired (older than "
        "max_retry_age), firing_not_delivered (the end of what was given up).",
    ),
    "stallwatch_notify_retries_total": Description(
        "counter", "Attempts that failed and are made again, by reason."
    ),
    "stallwatch_notify_template_failures_total": Description(
        "counter", "Messages sent in the built-in words because a template of the receiver failed."
    ),
    "stallwatch_notify_pictures_failed_total": Description(
        "counter", "Messages that went without their picture of the last hour, for a fault."
    ),
    "stallwatch_notify_pending": Description("gauge", "Notifications in the outbox."),
    "stallwatch_notify_oldest_pending_seconds": Description(
        "gauge", "Age of the oldest notification in the outbox, 0 when there is none."
    ),
    "stallwatch_notify_dead": Description(
        "gauge", "Notifications given up within a week; `stallwatch notify dead` lists them."
    ),
    "stallwatch_notify_held_back_total": Description(
        "counter", "Messages that a rate limit kept from being made, by integration."
    ),
    "stallwatch_notify_waiting_groups": Description(
        "gauge", "Groups with news that a rate limit holds back, by integration."
    ),
    "stallwatch_notify_flapping_alerts": Description(
        "gauge", "Alerts that fire and resolve too often to be told each time."
    ),
    "stallwatch_silences": Description(
        "gauge", "Silences by state: active, pending, expired (kept for five days)."
    ),
    "stallwatch_process_cpu_seconds_total": Description("counter", "The agent's own CPU time."),
    "stallwatch_process_resident_bytes": Description("gauge", "The agent's resident memory."),
}


@dataclass(slots=True)
class Telemetry:
    """Current values. Thread-safe. `sources` are asked at each sampling."""

    sources: list[Callable[[], Iterable[OwnSample]]] = field(default_factory=list)
    _values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shown: dict[tuple[str, tuple[tuple[str, str], ...]], Labels] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        """Raise a counter; `amount` 0 makes it known, so that `increase` sees its first step."""
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Set a gauge, or a counter that is kept elsewhere, to its present value."""
        with self._lock:
            self._values[name, tuple(sorted(labels.items()))] = value

    def clear(self, name: str) -> None:
        """Forget every series of a metric."""
        with self._lock:
            for key in [key for key in self._values if key[0] == name]:
                del self._values[key]

    def samples(self) -> Sequence[OwnSample]:
        """All values now, empty labels left out."""
        with self._lock:
            own = list(self._values.items())
        found: list[OwnSample] = [
            (name, tuple(pair for pair in labels if pair[1]), METRICS[name].kind, value)
            for (name, labels), value in own
        ]
        for source in self.sources:
            found.extend(source())
        return found

    def flush(self, base: Labels) -> list[tuple[Labels, float]]:
        """As samples for a flush: a series that was there last time and is not gets a marker."""
        found: dict[Labels, float] = {}
        shown = {}
        for name, labels, _, value in self.samples():
            key = (name, labels)
            # The same object as last time: whoever remembers what it was told of knows it at once.
            own = self._shown.get(key) or base.merged({**dict(labels), METRIC_NAME: name})
            shown[key] = own
            found[own] = value
        gone = [own for own in self._shown.values() if own not in found]
        self._shown = shown
        return [*found.items(), *((labels, float(STALE_NAN)) for labels in gone)]
