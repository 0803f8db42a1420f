"""A child process for what takes much memory: reading hours back, writing Parquet.

It takes several times the memory that the agent lives in, and neither the allocator nor Arrow
gives all of it back. A child does, and whoever ends it does not end the agent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

# Below the job's own priority (setpriority(2)); nobody waits for it.
NICENESS = 10
# The interpreter that runs, even where an upgrade replaced it.
_INTERPRETER = "/proc/self/exe"
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from importlib import import_module; import_module(sys.argv[1]).main(*sys.argv[3:])"
)


def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """`module.main(*arguments)` in a child whose output is read from pipes. Raises OSError."""
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD),
            *(module, json.dumps(sys.path), *arguments),
        ],
        executable=_INTERPRETER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Arrow starts a thread for each processor otherwise.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is the agent's to answer
    )


def ending(child: subprocess.Popen[bytes], errors: bytes) -> str:
    """How an ended child ended, with its last words."""
    words = errors.decode(errors="replace").strip().splitlines()
    return ": ".join([f"ended with status {child.returncode}", *words[-1:]])
