"""What the installation says of itself, read without `importlib.metadata`.

That module takes 40 ms to import, more than all that `stallwatch version` does besides.
"""

from __future__ import annotations

import os
import sys
from typing import Final

DISTRIBUTION: Final = "stallwatch"
COMMANDS: Final = "stallwatch.commands"


def folder() -> str | None:
    """Our own `.dist-info`, the first on the path as for any import; None when there is none."""
    for place in sys.path:
        try:
            names = sorted(os.listdir(place or "."))  # noqa: PTH208 - pathlib costs more than this
        except OSError:
            continue
        for name in names:
            if name.startswith(f"{DISTRIBUTION}-") and name.endswith(".dist-info"):
                return os.path.join(place, name)  # noqa: PTH118 - same
    return None


def version() -> str:
    """The version, as the name of the folder has it (PyPA, Recording installed projects)."""
    found = folder()
    if found is not None:
        return found.removesuffix(".dist-info").rpartition("-")[2]
    import importlib.metadata

    return importlib.metadata.version(DISTRIBUTION)


def own_commands() -> dict[str, str]:
    """`module:Class` by name, of our own commands; empty where they cannot be read like this."""
    found = folder()
    if found is None:
        return {}
    try:
        with open(os.path.join(found, "entry_points.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            lines = file.read().splitlines()
    except OSError:
        return {}
    commands: dict[str, str] = {}
    section = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == COMMANDS and "=" in line:
            name, _, value = line.partition("=")
            commands[name.strip()] = value.strip()
    return commands


def all_commands() -> dict[str, str]:
    """The same of every installed distribution; where two have a name, ours is meant."""
    from importlib.metadata import entry_points

    others = {point.name: point.value for point in entry_points(group=COMMANDS)}
    return others | own_commands()
