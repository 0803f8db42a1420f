"""A child process for what takes much memory: reading hours back, writing Parquet.

It takes several times the memory that the agent lives in, and neither the allocator nor Arrow
gives all of it back. A child does, and whoever ends it does not end the agent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from importlib import import_module

# Below the job's own priority (setpriority(2)); nobody waits for it.
NICENESS = 10
# The interpreter that runs, even where an upgrade replaced it.
_INTERPRETER = "/proc/self/exe"
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    f" from {__name__} import run; run(*sys.argv[2:])"
)
_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def start(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """`module.main(*arguments)` in a child whose output is read from pipes. Raises OSError.

    The child ends with the thread that started it.
    """
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD),
            *(json.dumps(sys.path), module, str(os.getpid()), *arguments),
        ],
        executable=_INTERPRETER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,  # Ctrl-C is the agent's to answer
    )


def environment() -> dict[str, str]:
    """What a child needs of the agent's: there may be receivers' secrets in it (`env:NAME`)."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    # Arrow starts a thread for each processor otherwise.
    return {**kept, "OMP_NUM_THREADS": "1"}


def run(module: str, agent: str, *arguments: str) -> None:
    """The child. `agent`: the pid of whoever started it."""
    os.nice(NICENESS)
    # systemd sends it to each process of a service, and it is the agent's to answer.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The agent's lock ends with the agent: a child that went on would write over the next one's.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(agent):
        sys.exit("the agent has ended")
    import_module(module).main(*arguments)


def ending(child: subprocess.Popen[bytes], errors: bytes) -> str:
    """How an ended child ended, with its last words."""
    words = errors.decode(errors="replace").strip().splitlines()
    return ": ".join([f"ended with status {child.returncode}", *words[-1:]])
