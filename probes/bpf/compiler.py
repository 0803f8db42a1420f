"""Source to loaded programs, by bcc in a child process; nothing here imports bcc.

One child serves all sources of a start and ends two seconds after the last. It is given no
descriptor but its end of a socket, no environment but what finds programs and libraries, and no
standard output. When it crashes, hangs or is killed, that source is refused and the next one gets
a new child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from typing import IO, Any

from probes.bpf import passing
from probes.bpf.errors import UnavailableError

MEND_BCC = "apt-get install python3-bpfcc (Fedora: dnf install python3-bcc), then make venv"
IDLE_SECONDS = 2.0
# A source takes 0.2 s, on an emulated machine a hundred times that.
TIMEOUT_SECONDS = 120.0
# A verifier's log can be megabytes, and its end holds the reason.
MAX_WORDS_BYTES = 65536
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "ARCH")
# The interpreter that runs, even where an upgrade replaced it or its path is closed to this user.
_INTERPRETER = "/proc/self/exe"
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    " from probes.bpf.compile_child import main; main(int(sys.argv[1]))"
)


class ChildError(Exception):
    """The child ended, or did not answer in time; the text says which, and what it printed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the child said, the descriptors it passed, and what was printed meanwhile."""

    message: dict[str, Any]
    fds: list[int]
    chatter: str


class _Child:
    """One process; used by one thread at a time."""

    def __init__(self) -> None:
        self._stderr = _scratch()
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", _CHILD]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), json.dumps(sys.path)],
                executable=_INTERPRETER,
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                start_new_session=True,  # Ctrl-C is the agent's to answer
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: dict[str, Any], timeout_seconds: float) -> Answer:
        """Raises ChildError, after which the child is gone."""
        start = self._stderr.seek(0, os.SEEK_END)
        self._channel.settimeout(timeout_seconds)
        try:
            passing.send(self._channel, request)
            message, fds = passing.receive(self._channel)
        except TimeoutError:
            self.close(kill=True)
            raise ChildError(f"it did not answer within {timeout_seconds:g} s") from None
        except (OSError, EOFError):
            words = self._read(start)
            self.close()
            raise ChildError(f"it {_ending(self._process.returncode)}: {words}") from None
        return Answer(message, fds, self._read(start))

    def _read(self, start: int) -> str:
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(start, end - MAX_WORDS_BYTES))
        return self._stderr.read().decode(errors="replace")

    def close(self, *, kill: bool = False) -> None:
        """End it: at once, or when it sees that the channel is closed."""
        if kill:
            self._process.kill()
        self._channel.close()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._stderr.close()


def _scratch() -> IO[bytes]:
    """A file without a name, also where nothing can be written (a read-only container)."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return os.fdopen(os.memfd_create("stallwatch-compiler"), "w+b")


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


@dataclass(slots=True, eq=False)
class Compiler:
    """Starts the child when it is needed, and lets it go when it is not. Any thread may use it."""

    idle_seconds: float = IDLE_SECONDS
    timeout_seconds: float = TIMEOUT_SECONDS
    _child: _Child | None = None
    _timer: threading.Timer | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def pid(self) -> int | None:
        """The child's, None while there is none."""
        child = self._child
        return None if child is None else child.pid

    def ask(self, request: dict[str, Any]) -> Answer:
        """Raises UnavailableError (compiler_died), with what the child said last."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            try:
                return self._ask(request)
            except ChildError as error:
                self._child = None
                raise UnavailableError(
                    "compiler_died",
                    f"the process that compiles is gone: {error}",
                    "is there memory for it (150 MB)? The kernel's log tells who killed it",
                ) from error
            finally:
                self._timer = threading.Timer(self.idle_seconds, self.close)
                self._timer.daemon = True
                self._timer.start()

    def _ask(self, request: dict[str, Any]) -> Answer:
        if self._child is not None:
            # It may have been killed since the source before.
            with contextlib.suppress(ChildError):
                return self._child.ask(request, self.timeout_seconds)
        try:
            self._child = _Child()
        except OSError as error:
            raise ChildError(f"it cannot be started: {error}") from error
        return self._child.ask(request, self.timeout_seconds)

    def close(self) -> None:
        """Let the child go now."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._child is not None:
                self._child.close()
                self._child = None


COMPILER = Compiler()


@dataclass(frozen=True, slots=True)
class Bcc:
    """The bcc that is found: its version and file."""

    version: str
    file: str


def find_bcc(compiler: Compiler = COMPILER) -> Bcc:
    """Raises UnavailableError (no_bcc, compiler_died)."""
    message = compiler.ask({}).message
    if "failed" in message:
        raise no_bcc(message["words"])
    return Bcc(message["version"], message["file"])


def no_bcc(words: str) -> UnavailableError:
    """The reason when bcc cannot be imported."""
    return UnavailableError("no_bcc", f"bcc cannot be loaded: {words}", MEND_BCC)
