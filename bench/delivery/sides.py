"""Alertmanager and our delivery behind one face: alerts and silences go in."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import requests

from bench.delivery.configuration import alertmanager_yml
from bench.peers.packages import Failure
from bench.peers.servers import free_port
from engine.alerts.alert import Alert, AlertState
from engine.alerts.matchers import Matcher
from engine.config.loader import load_config
from engine.labels import Labels
from notifiers.delivery import OutboxDelivery, open_delivery
from notifiers.silences.silence import Silence as OwnSilence
from notifiers.silences.store import Silences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.delivery.timeline import Silence

# Prometheus: four times the time after which it would tell an alert again, at least.
LIFE_SECONDS = 240.0
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Post:
    """An alert as it is told: times in unix seconds, `ended` None while it fires."""

    labels: dict[str, str]
    began: float
    ended: float | None = None


class Side(Protocol):
    """`name` is the first part of the hook's path."""

    name: str

    def tell(self, alerts: Sequence[Post]) -> None:
        """Alerts that fire or are over."""
        ...

    def silence(self, one: Silence, epoch: float) -> None:
        """A new silence; `epoch`: the timeline's start, in unix seconds."""
        ...

    def expire(self, number: int) -> None:
        """End a silence."""
        ...


class Peer:
    """Alertmanager by its API."""

    def __init__(self, url: str) -> None:
        self.name = "alertmanager"
        self._url = f"{url}/api/v2"
        self._session = requests.Session()
        self._silences: dict[int, str] = {}

    def tell(self, alerts: Sequence[Post]) -> None:
        """See `Side`."""
        now = time.time()
        self._post("alerts", [_as_prometheus(one, now) for one in alerts])

    def silence(self, one: Silence, epoch: float) -> None:
        """See `Side`."""
        matchers = [
            {"name": name, "value": value, "isRegex": "~" in op, "isEqual": "!" not in op}
            for name, op, value in one.matchers
        ]
        made = self._post(
            "silences",
            {
                "matchers": matchers,
                "startsAt": _rfc3339(epoch + one.starts),
                "endsAt": _rfc3339(epoch + one.ends),
                "createdBy": "bench",
                "comment": "bench",
            },
        )
        self._silences[one.number] = made.json()["silenceID"]

    def expire(self, number: int) -> None:
        """See `Side`."""
        url = f"{self._url}/silence/{self._silences[number]}"
        self._session.delete(url, timeout=10).raise_for_status()

    def _post(self, what: str, body: Any) -> requests.Response:
        answer = self._session.post(f"{self._url}/{what}", json=body, timeout=10)
        if not answer.ok:
            raise Failure(f"Alertmanager refuses {what}: {answer.text.strip()}")
        return answer


class Ours:
    """A delivery over a state.db, as the agent has it."""

    def __init__(self, name: str, delivery: OutboxDelivery, path: Path) -> None:
        self.name = name
        self._delivery = delivery
        self._connection = sqlite3.connect(path, timeout=30)
        self._silences = Silences(str(path))
        self._ids: dict[int, str] = {}

    def tell(self, alerts: Sequence[Post]) -> None:
        """See `Side`."""
        with self._connection:
            self._delivery.enqueue(self._connection, [_alert(one) for one in alerts])
        self._delivery.wake()

    def silence(self, one: Silence, epoch: float) -> None:
        """See `Side`."""
        matchers = tuple(Matcher(*each) for each in one.matchers)  # type: ignore[arg-type]
        starts_ms, ends_ms = round((epoch + one.starts) * 1000), round((epoch + one.ends) * 1000)
        made = self._silences.add(OwnSilence("", matchers, starts_ms, ends_ms), _now_ms())
        self._ids[one.number] = made.id

    def expire(self, number: int) -> None:
        """See `Side`."""
        self._silences.expire(self._ids[number], _now_ms())

    def close(self) -> None:
        """Stop, leaving nothing open."""
        self._delivery.stop(STOP_SECONDS)
        self._connection.close()
        self._silences.close()


def find_alertmanager() -> Path:
    """The program. Raises Failure.

    Debian's needs the files of its package at their place, so it is installed and not unpacked.
    """
    found = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if found is None:
        raise Failure(
            "Alertmanager is not installed\n"
            "    mend: as root, apt-get install prometheus-alertmanager"
        )
    return Path(found)


@contextmanager
def alertmanager(program: Path, folder: Path, hook_url: str, minutes: int) -> Iterator[Peer]:
    """Alertmanager itself, alone and with nothing remembered. Raises Failure."""
    configuration = folder / "alertmanager.yml"
    configuration.write_text(alertmanager_yml(f"{hook_url}/alertmanager", minutes))
    port = free_port()
    command = [
        str(program),
        f"--config.file={configuration}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    url = f"http://127.0.0.1:{port}"
    log = folder / "alertmanager.log"
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as process:
        try:
            _await_ready(process, url, log)
            yield Peer(url)
        finally:
            process.terminate()


def _await_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise Failure(f"Alertmanager has ended: {log.read_text()[-500:]}")
        try:
            if requests.get(f"{url}/-/ready", timeout=10).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise Failure("Alertmanager does not get ready")


@contextmanager
def ours(name: str, folder: Path, hook_url: str, minutes: int, compat: str) -> Iterator[Ours]:
    """Our delivery with the same file; `compat` as in stallwatch.yaml."""
    home = folder / name
    home.mkdir()
    (home / "alertmanager.yml").write_text(alertmanager_yml(f"{hook_url}/{name}", minutes))
    written = home / "stallwatch.yaml"
    written.write_text(
        f"alertmanager_config: alertmanager.yml\ntier_inhibition: false\ncompat: {compat}\n"
        "flapping: {enabled: false}\n"
    )
    delivery = open_delivery(load_config(written), os.fspath(home / "state.db"))
    delivery.start()
    side = Ours(name, delivery, home / "state.db")
    try:
        yield side
    finally:
        side.close()


def _as_prometheus(one: Post, now: float) -> dict[str, Any]:
    return {
        "labels": one.labels,
        "annotations": {},
        "startsAt": _rfc3339(one.began),
        "endsAt": _rfc3339(now + LIFE_SECONDS if one.ended is None else one.ended),
    }


def _alert(one: Post) -> Alert:
    began_ms = round(one.began * 1000)
    return Alert(
        labels=Labels(one.labels),
        annotations={},
        state=AlertState.FIRING if one.ended is None else AlertState.RESOLVED,
        value=1.0,
        active_at_ms=began_ms,
        fired_at_ms=began_ms,
        resolved_at_ms=None if one.ended is None else round(one.ended * 1000),
    )


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
