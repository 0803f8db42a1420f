"""The bundled recording of the demo: how it is made and what is known of it.

`sudo stallwatch demo --save-recording probes/demo/recording` plays the demo live and makes it
anew: the job's own series and events and the probes' counters, nothing else of the machine.
"""

from __future__ import annotations

import json
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.dataset import open_data
from engine.dataset.dataset import MemoryDataset
from engine.dataset.errors import DataError
from engine.recording.importing import import_data
from probes.demo.story import LOSS_PER_MILLE

if TYPE_CHECKING:
    from engine.dataset import Dataset
    from engine.labels import Labels
    from probes.demo.live import Take

BUNDLED = Path(__file__).with_name("recording")
NODE = "demo-node"
_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Facts:
    """What the samples do not say. Times are unix milliseconds."""

    task_id: str
    workload: str
    kernel: str
    loss_per_mille: int
    loss_began_ms: int
    loss_ended_ms: int
    clean_steps_per_second: float
    lossy_steps_per_second: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """A recorded demo."""

    facts: Facts
    data: Dataset


def open_bundle(folder: Path = BUNDLED) -> Bundle:
    """The recorded demo. Raises DataError when it is not there or broken."""
    path = folder / "facts.json"
    try:
        facts = Facts(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(str(path), f"cannot be read: {error}", "install stallwatch anew") from None
    return Bundle(facts, open_data(str(folder / "data")))


def save_bundle(recording: Path, take: Take, folder: Path = BUNDLED) -> None:
    """Write a recorded demo in the place of the one in `folder`. Raises DataError, OSError."""
    data = open_data(str(recording))
    kept = tuple(
        series for series in data.select((), -_EVER, _EVER) if _belongs(series.labels, take.task_id)
    )
    events = tuple(
        event for event in data.all_events(-_EVER, _EVER) if event.task_id == take.task_id
    )
    shutil.rmtree(folder / "data", ignore_errors=True)
    import_data(MemoryDataset(kept, recorded_events=events), str(folder / "data"))
    (folder / "data" / "lock").unlink()
    facts = Facts(
        task_id=take.task_id,
        workload=take.workload,
        kernel=platform.release(),
        loss_per_mille=LOSS_PER_MILLE,
        loss_began_ms=take.loss_began_ms,
        loss_ended_ms=take.loss_ended_ms,
        clean_steps_per_second=round(take.clean_steps_per_second, 1),
        lossy_steps_per_second=round(take.lossy_steps_per_second, 1),
    )
    (folder / "facts.json").write_text(json.dumps(asdict(facts), indent=2) + "\n", "utf-8")


def _belongs(labels: Labels, task_id: str) -> bool:
    """The job's own series, and what the shipped rules read beside them."""
    name = labels.get("__name__")
    if name == "tcp_loss_probes_total":
        return labels.get("task_id") in {task_id, ""}
    return labels.get("task_id") == task_id or name.startswith("stallwatch_probe_")
