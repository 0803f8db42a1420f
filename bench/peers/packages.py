"""The peers' programs: those on PATH, else unpacked from the distribution's packages.

Unpacked, not installed: an installed package starts its service, on this boot and on every other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "build" / "peers"
PROMETHEUS = ("prometheus", ("prometheus", "promtool"))
VICTORIA = ("victoria-metrics", ("victoria-metrics", "vmalert"))


class Failure(Exception):  # noqa: N818 - it is said to the user, not handled
    """The comparison cannot be made or would mean nothing."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths; those of VictoriaMetrics are None where only Prometheus is compared with."""

    prometheus: Path
    promtool: Path
    victoria: Path | None
    vmalert: Path | None


def programs(*, download: bool = True) -> Programs:
    """Find all of them. Raises Failure; without `download`, VictoriaMetrics may be missing."""
    found = _find(*PROMETHEUS) or (download and _unpack(*PROMETHEUS))
    if not found:
        raise Failure("Prometheus is not installed")
    victoria = _find(*VICTORIA) or (_unpack(*VICTORIA) if download else None)
    return Programs(*found, *(victoria or (None, None)))


def _find(package: str, names: tuple[str, ...]) -> list[Path] | None:
    beside = UNPACKED / package / "usr" / "bin"
    places = [shutil.which(name) or shutil.which(name, path=str(beside)) for name in names]
    return [Path(place) for place in places if place] if all(places) else None


def _unpack(package: str, names: tuple[str, ...]) -> list[Path]:
    """`apt-get download` and `dpkg -x`, which need no root where the package lists are there."""
    mend = f"\n    mend: as root, apt-get update && apt-get install {package}"
    if not shutil.which("apt-get"):
        raise Failure(f"{package} is not installed, and this system has no apt-get{mend}")
    folder = UNPACKED / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"fetching {package} from the distribution ...", flush=True)
    if not _download(package, folder) and os.geteuid() == 0:
        _call(["apt-get", "update"], folder)
        _download(package, folder)
    packed = next(folder.glob("*.deb"), None)
    if packed is None:
        raise Failure(f"the package {package} could not be downloaded{mend}")
    _call(["dpkg", "-x", str(packed), str(folder)], folder)
    found = _find(package, names)
    if found is None:
        raise Failure(f"the package {package} holds no {' and '.join(names)}{mend}")
    return found


def _download(package: str, folder: Path) -> bool:
    return _call(["apt-get", "-o", "APT::Sandbox::User=root", "download", package], folder)


def _call(command: list[str], folder: Path) -> bool:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def version(package: str) -> str:
    """The package's version: installed, or unpacked here."""
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    installed = shutil.which("dpkg-query") and subprocess.run(
        query, capture_output=True, text=True, check=False
    )
    if installed and installed.stdout:
        return installed.stdout
    packed = next((UNPACKED / package).glob("*.deb"), None)
    return packed.name.split("_")[1] if packed else "?"
