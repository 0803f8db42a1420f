"""An hour's journal becomes Parquet in a process of its own, which then ends.

Reading an hour back and writing Parquet takes several times the memory that the agent lives in, and
neither the allocator nor Arrow gives it all back. A child does, and the kernel or an administrator
can end it without ending the agent: the journal stays and is tried again.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, cast

from engine.recording.hourly import seal

if TYPE_CHECKING:
    from engine.recording.manifest import Entry

# A day's journal that nobody could seal is still done within it.
TIMEOUT_SECONDS = 600.0
# Below the job's own priority (setpriority(2)); nobody waits for it.
NICENESS = 10
# The interpreter that runs, even where an upgrade replaced it.
_INTERPRETER = "/proc/self/exe"
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]);"
    " from engine.recording.sealing import main; main(sys.argv[1], sys.argv[2])"
)


def seal_apart(folder: str, stem: str) -> Entry:
    """`hourly.seal` in a child. Raises OSError, also when the child died or took too long."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD]
    try:
        child = subprocess.run(
            [*command, folder, stem, json.dumps(sys.path)],
            executable=_INTERPRETER,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
            # Arrow starts a thread for each processor otherwise.
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is the agent's to answer
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"took more than {TIMEOUT_SECONDS:g} s", folder) from None
    try:
        answer = json.loads(child.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        words = child.stderr.decode(errors="replace").strip().splitlines()
        ended = f"ended with status {child.returncode}"
        raise _failed(": ".join([ended, *words[-1:]]), folder) from None
    if "errno" in answer:
        raise OSError(answer["errno"], answer["strerror"], answer["filename"])
    return cast("Entry", answer)


def main(folder: str, stem: str) -> None:
    """The child: the manifest entry, or what the system refused, as one line of JSON."""
    os.nice(NICENESS)
    try:
        answer = dict(seal(folder, stem))
    except OSError as error:
        answer = {
            "errno": error.errno or errno.EIO,
            "strerror": error.strerror or str(error),
            "filename": str(error.filename or folder),
        }
    print(json.dumps(answer), flush=True)


def _failed(why: str, folder: str) -> OSError:
    return OSError(errno.EIO, f"the process that writes the hour's Parquet {why}", folder)
