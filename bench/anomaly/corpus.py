"""The labelled series of the Numenta Anomaly Benchmark, and its scorer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.series import Float64Array, Int64Array

ROOT = Path(__file__).parents[2]
PROFILES = ("standard", "reward_low_FP_rate", "reward_low_FN_rate")


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A series: `category/file.csv`, int64[T] unix milliseconds, float64[T]."""

    name: str
    times_ms: Int64Array
    values: Float64Array

    @property
    def category(self) -> str:
        """The folder it is in."""
        return self.name.split("/", maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the benchmark's data, labels and scorer are, and its series."""

    folder: Path
    scorer: Path
    series: tuple[Labelled, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """Their names, each once."""
        return tuple(sorted({one.category for one in self.series}))

    def score(
        self, scores: Mapping[str, Float64Array], *, threshold: float | None, loco: bool = False
    ) -> dict[str, Any]:
        """What the scorer says of float64[T] scores by series, for each of `PROFILES`.

        Without a threshold it looks for the best one, by all labels.
        """
        with tempfile.TemporaryDirectory() as results:
            for one in self.series:
                path = Path(results) / one.name
                path.parent.mkdir(exist_ok=True)
                data = pd.read_csv(self.folder / "data" / one.name)
                data["anomaly_score"] = np.nan_to_num(scores[one.name])
                data.to_csv(path, index=False)
            command = [
                sys.executable,
                str(self.scorer),
                results,
                "--nab",
                str(self.folder),
                "--json",
            ]
            command += [] if threshold is None else ["--threshold", str(threshold)]
            command += ["--loco"] if loco else []
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        told: dict[str, Any] = json.loads(done.stdout)
        return told


def shared() -> Path:
    """Where the public series are."""
    return Path(os.environ.get("STALLWATCH_SHARED", ROOT.parent / "shared"))


def load() -> Corpus | None:
    """The corpus, None where it is not."""
    folder, scorer = shared() / "cases/nab", shared() / "tools/nab_score.py"
    if not folder.is_dir() or not scorer.is_file():
        return None
    names = json.loads((folder / "labels/combined_windows.json").read_text())
    series = tuple(_read(folder / "data", name) for name in sorted(names))
    return Corpus(folder, scorer, series)


def _read(folder: Path, name: str) -> Labelled:
    data = pd.read_csv(folder / name)
    times = pd.to_datetime(data["timestamp"]).to_numpy().astype("datetime64[ms]")
    return Labelled(name, times.astype(np.int64), data["value"].to_numpy(np.float64))
