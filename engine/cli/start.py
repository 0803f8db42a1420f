"""The command `stallwatch`: sees that it stands among its own packages, then runs.

PyPI has other packages called `rules` and `notifiers`. One of those, in the same environment or on
PYTHONPATH, would answer imports that are meant for ours; better one clear line than what follows.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

# Commands that own nothing but memory: no thread or child that has work left when they end, no
# file that an exit would complete.
READERS = frozenset({"check", "dry-run", "query", "test", "version"})
# Those that hold no data.
BRIEF = frozenset({"check", "version"})
PACKAGES = ("engine", "notifiers", "probes", "rules")
# What a shell reports for a command that SIGINT ended.
INTERRUPTED = 130


def main() -> int:
    """Run one subcommand; returns its exit status, 2 where the packages are not all ours."""
    try:
        return _main()
    except KeyboardInterrupt:
        # One that came while the subcommands were imported.
        return INTERRUPTED


def _main() -> int:
    complaint = misplaced({name: locate(name) for name in PACKAGES})
    if complaint:
        print(complaint, file=sys.stderr)
        return 2
    # Imports `rules`, so not before it is known to be ours.
    reads = sys.argv[1:2] and sys.argv[1] in READERS
    if reads and sys.argv[1] in BRIEF:
        # To look their objects over would be a tenth of their time. Not for others: an array that
        # a cycle holds has to go soon.
        gc.disable()
    from engine.cli.main import main as dispatch

    status = dispatch()
    if reads:
        _leave(status)
    return status


def _leave(status: int) -> NoReturn:
    """End at once: taking a gigabyte and two hundred modules apart costs up to a second."""
    _flush(sys.stdout)
    _flush(sys.stderr)
    os._exit(status)


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except (OSError, ValueError):
        return  # nobody is left to tell


def locate(package: str) -> str | None:
    """The folder of a top-level package, without importing it; None when there is none."""
    # As importlib.util.find_spec asks them; that, and pathlib, are slow to import.
    for finder in sys.meta_path:
        spec = finder.find_spec(package, None)
        if spec is not None:
            folders = list(spec.submodule_search_locations or [])
            return os.path.realpath(folders[0]) if folders else None
    return None


def misplaced(folders: Mapping[str, str | None]) -> str:
    """What is wrong when the packages do not lie side by side, "" when they do."""
    own = folders["engine"]
    home = None if own is None else os.path.dirname(own)  # noqa: PTH120 - pathlib is slow to import
    for name, folder in folders.items():
        if folder is None or os.path.dirname(folder) != home:  # noqa: PTH120 - same
            found = "is missing" if folder is None else f"comes from {folder}"
            return (
                f"stallwatch: the package '{name}' {found}: it belongs beside 'engine' in {home}\n"
                "    hint: install stallwatch into a virtual environment of its own, and start it"
                " without PYTHONPATH"
            )
    return ""


if __name__ == "__main__":
    sys.exit(main())
