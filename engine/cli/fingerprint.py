"""Whether the files of a configuration are still those that the agent was started with."""

from __future__ import annotations

import glob
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config.loader import find_config
from rules.slotted import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.config.model import Config


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The SHA-256 of each file, by its path; a file that cannot be read has none."""

    digests: Mapping[str, bytes]

    @classmethod
    def of(cls, named: str | None, config: Config) -> Fingerprint:
        """As the files are now. `named`: by the command line.

        A pipe, such as `--config <(...)`, gave its text to whoever read it first: it is left out.
        """
        return cls({str(path): _digest(path) for path in _files(named, config) if path.is_file()})

    def changed(self, now: Fingerprint) -> tuple[str, ...]:
        """The files that are other ones now, are new, or are gone; sorted."""
        paths = sorted(self.digests.keys() | now.digests.keys())
        return tuple(path for path in paths if self.digests.get(path) != now.digests.get(path))


def _files(named: str | None, config: Config) -> Iterator[Path]:
    found = find_config(named)
    if found is not None:
        yield found
    if config.alertmanager_config is not None:
        yield config.alertmanager_config
    for pattern in config.templates:
        yield from map(Path, glob.glob(pattern))  # noqa: PTH207 - absolute patterns, too


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""
