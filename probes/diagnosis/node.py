"""Findings about the rest of the node: NVML, RDMA, libraries in use, state folder, port, clock."""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
from typing import TYPE_CHECKING

from engine.address import parse_address
from probes.diagnosis import libraries
from probes.diagnosis.clock import read_clock
from probes.diagnosis.finding import Finding
from probes.gpu.nvml import Nvml, NvmlError, explain
from probes.rdma import sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.config.model import Config

# An hour's recording of a quiet node; with less there is no point in beginning.
_LEAST_BYTES = 1 << 20
_ANSWER_SECONDS = 2.0
_MOST_BYTES = 1 << 16


def findings(config: Config) -> Iterator[Finding]:
    """Everything that is not the kernel's."""
    yield _nvml()
    yield _rdma()
    yield from libraries.findings()
    yield _state_folder(config.state_dir)
    yield _port(config.listen)
    yield read_clock()


def _nvml() -> Finding:
    try:
        nvml = Nvml()
    except NvmlError as error:
        return Finding("NVML", "degraded", error.detail, error.mend)
    try:
        gpus = nvml.read()
        refused = sorted({gpu.reason for gpu in gpus if gpu.reason})
        if refused:
            return Finding("NVML", "degraded", *explain(refused[0]))
        return Finding("NVML", "ok", f"driver {nvml.driver()}, GPUs: {len(gpus)}")
    except NvmlError as error:
        return Finding("NVML", "degraded", error.detail, error.mend)
    finally:
        nvml.close()


def _rdma() -> Finding:
    if not sysfs.exists():
        return Finding("RDMA", "degraded", *sysfs.ABSENT)
    return Finding("RDMA", "ok", f"devices: {len(sysfs.look().devices)}")


def _state_folder(folder: Path) -> Finding:
    """Writable, without making it: the nearest existing parent is asked."""
    place = folder
    while not os.access(place, os.F_OK) and place != place.parent:
        place = place.parent
    mend = "--state DIR, or state_dir in stallwatch.yaml (container: mount a volume there)"
    if not (os.access(place, os.W_OK | os.X_OK) and place.is_dir()):
        return Finding("state folder", "no", f"{folder} cannot be written", mend)
    disk = os.statvfs(place)
    if disk.f_bavail * disk.f_frsize < _LEAST_BYTES:
        return Finding("state folder", "no", f"{folder} is on a full disk", mend)
    return Finding("state folder", "ok", f"{folder} can be written")


def _port(listen: str) -> Finding:
    host, port = parse_address(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        if taken and _is_agent(host, port):
            said = f"{listen}: a stallwatch agent runs here already"
            return Finding("port", "ok", said)
        mend = "another agent runs already?" if taken else "an address of this machine is needed"
        return Finding(
            "port", "no", f"{listen}: {error.strerror}", f"{mend} (--listen HOST:PORT changes it)"
        )
    return Finding("port", "ok", f"{listen} is free")


def _is_agent(host: str, port: int) -> bool:
    """Whether who listens there answers as our own agent does."""
    # Who listens on every address answers on loopback.
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    asked = http.client.HTTPConnection(name, port, timeout=_ANSWER_SECONDS)
    try:
        asked.request("GET", "/api/v1/status/buildinfo")
        answer = json.loads(asked.getresponse().read(_MOST_BYTES))
        return bool(answer["data"]["application"] == "stallwatch")
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        # Whatever else it is, it is not ours.
        return False
    finally:
        asked.close()
