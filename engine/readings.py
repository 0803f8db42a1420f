"""What a probe hands over: counts, levels and events of processes.

`weight` is the number of kernel events that a reading stands for; the aggregator adds it to
*consumed* when the reading enters, which is the one place where it is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

PROBES_READY = "probes_ready"
"""Kind of the event from which the events of a node are counted: every probe has started."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
FieldValue: TypeAlias = str | int | float


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process: pid in the agent's pid namespace plus start time (field 22 of
    /proc/PID/stat, in clock ticks after boot), so that a reused pid is another process.
    """  # noqa: D205 - one sentence

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Count:
    """A counter grew by `delta` since the last reading. `process` None: the node itself.

    `whole_task`: it belongs to the process's task as a whole, to none of its ranks.
    """

    metric: str
    process: Process | None
    delta: float
    labels: Pairs = ()
    weight: int = 0
    stream: str = ""
    whole_task: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge's value now.

    Several processes of one rank are folded with `fold` before the sample is stored.
    """

    metric: str
    process: Process | None
    value: float
    labels: Pairs = ()
    fold: Literal["max", "min", "sum"] = "max"
    weight: int = 0
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: a retransmit with its 4-tuple, a slow call.

    `time_ms`: unix milliseconds. `fields`: evidence fields by name (`src`, `sport`,
    `dst`, `dport`, `comm`, ...), JSON scalars only. The aggregator adds `sequence`: how many events
    of this node it has taken since `probes_ready`, an order that no clock can spoil.
    """

    kind: str
    time_ms: int
    process: Process | None
    fields: tuple[tuple[str, FieldValue], ...] = ()
    weight: int = 0
    stream: str = "events"


@dataclass(frozen=True, slots=True)
class Watched:
    """A process that belongs to a task though it has produced nothing yet.

    Makes the task known, so that its counters start with a 0 sample. `metrics` are the counters
    to start: (metric, labels). `library`: the watched library it maps, if that is why it is
    watched; only then may its process group stand for a task. `parent`: the process that forked it,
    whose owner is its own if it is gone before it could be asked.
    """

    process: Process
    metrics: tuple[tuple[str, Pairs], ...] = ()
    library: str = ""
    parent: Process | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """A watched process ended (or its pid was reused)."""

    process: Process


@dataclass(frozen=True, slots=True)
class Told:
    """A process told a communication library its rank, in a group of `size` processes.

    For ranks that no environment names: `torch.multiprocessing.spawn` sets RANK after the process
    started. The environment comes first; of several groups the largest counts, of equally large
    ones the first (subgroups number their members anew). `size` 0: not known.
    """

    process: Process
    rank: int
    size: int = 0


Reading: TypeAlias = Count | Level | Event | Watched | Gone | Told


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """The honest line about a probe.

    `state`: attached, degraded (runs with less than it could) or off. `reason`: one short
    stable word per cause ("" when attached), used as a label. `detail` and `mend`: for people.
    """

    probe: str
    state: Literal["attached", "degraded", "off"]
    reason: str = ""
    detail: str = ""
    mend: str = ""


@dataclass(frozen=True, slots=True)
class MapUse:
    """How full a kernel map is: entries now (or lately), and how many it can hold."""

    map: str
    entries: int
    limit: int


@dataclass(frozen=True, slots=True)
class Produced:
    """Kernel-side counters of a probe, cumulative since it started.

    `produced`: by stream ("" is the map-counted one); `lost`: by (stream, reason), e.g.
    ("events", "ring_full"), ("", "map_full"), ("", "recursion_misses"). `maps`: how full each is.
    """

    probe: str
    produced: tuple[tuple[str, int], ...] = ()
    lost: tuple[tuple[tuple[str, str], int], ...] = ()
    maps: tuple[MapUse, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """What the agent tells a probe at start. `settings` is its section of the configuration."""

    settings: dict[str, object] = field(default_factory=dict)
