"""The child that compiles, with a bcc of the tests' own making: no root, no kernel."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from probes.bpf.bcc import NodeHeaders, StubHeaders, refusal
from probes.bpf.builder import Source
from probes.bpf.compiler import Answer, Compiler, find_bcc
from probes.bpf.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# As much of bcc as the child uses; `compiling` is what its BPF does with (text, cflags).
BCC = """
import os, sys, time
__version__ = "0.0"
class _Function:
    def __call__(self, module, index=0):
        return self.answer
    def __init__(self, answer):
        self.answer = answer
class _Library:
    bpf_num_tables, bpf_table_name, bpf_table_fd_id = _Function(1), _Function(b"numbers"), None
    def __init__(self):
        self.bpf_table_fd_id = _Function(os.open("/dev/null", os.O_RDONLY))
class libbcc:
    lib = _Library()
class _Loaded:
    fd = os.open("/dev/zero", os.O_RDONLY)
class BPF:
    module = None
    def __init__(self, text, cflags):
        text = text.decode().splitlines()[-1]
        {compiling}
    def load_func(self, name, kind):
        return _Loaded
    def cleanup(self):
        pass
"""


def _target(link: str | Path) -> str:
    return str(Path(link).readlink())


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Compiler]]:
    made: list[Compiler] = []

    def make(compiling: str = "pass", timeout_seconds: float = 30.0) -> Compiler:
        (tmp_path / "bcc.py").write_text(BCC.replace("{compiling}", compiling), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        made.append(Compiler(timeout_seconds=timeout_seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "program.bpf.c"
    path.write_text("good", encoding="utf-8")
    return Source(path, {"on_hit": 5})


def test_the_programs_and_maps_arrive_as_open_descriptors(
    compiler: Callable[..., Compiler], source: Source
) -> None:
    built = StubHeaders(compiler()).build(source)
    assert _target(f"/proc/self/fd/{built.program_fds['on_hit']}") == "/dev/zero"
    assert _target(f"/proc/self/fd/{built.map_fds['numbers']}") == "/dev/null"
    assert not any(os.get_inheritable(fd) for fd in built.program_fds.values())
    built.close()
    built.close()


def test_it_compiles_where_no_file_can_be_written(
    compiler: Callable[..., Compiler], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    StubHeaders(compiler()).build(source).close()
    # What it prints is kept all the same.
    with pytest.raises(UnavailableError, match="oh no"):
        StubHeaders(compiler("os.write(2, b'oh no'); os.abort()")).build(source)


@pytest.mark.parametrize(
    ("compiling", "words"),
    [
        ("os.write(2, b'LLVM ERROR: oh no'); os.abort()", "SIGABRT: LLVM ERROR: oh no"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os._exit(3)", "ended with status 3"),
        ("time.sleep(60)", "did not answer within 1 s"),
    ],
)
def test_a_compiler_that_dies_or_hangs_takes_only_its_source_with_it(
    compiler: Callable[..., Compiler], source: Source, compiling: str, words: str
) -> None:
    own = compiler(f"if text == 'bad': {compiling}", timeout_seconds=1.0)
    bad = Source(source.path.with_name("bad.bpf.c"), source.programs)
    bad.path.write_text("bad", encoding="utf-8")
    StubHeaders(own).build(source).close()
    with pytest.raises(UnavailableError, match=words) as caught:
        StubHeaders(own).build(bad)
    assert caught.value.reason == "compiler_died"
    StubHeaders(own).build(source).close()


def test_a_child_that_was_killed_between_two_sources_is_started_again(
    compiler: Callable[..., Compiler], source: Source
) -> None:
    own = compiler()
    StubHeaders(own).build(source).close()
    first = own.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    StubHeaders(own).build(source).close()
    assert own.pid not in {None, first}


def test_the_child_goes_when_nothing_more_is_asked_and_leaves_no_zombie(
    compiler: Callable[..., Compiler], source: Source
) -> None:
    own = compiler()
    own.idle_seconds = 0.05
    StubHeaders(own).build(source).close()
    timer = own._timer
    assert timer is not None
    timer.join(timeout=30)
    assert own.pid is None
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_child_gets_no_secret_and_no_socket_of_the_agent(
    compiler: Callable[..., Compiler], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-secret")
    own = compiler()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        StubHeaders(own).build(source).close()
        child = Path(f"/proc/{own.pid}")
        theirs = {_target(each) for each in (child / "fd").iterdir()}
        listening = _target(f"/proc/self/fd/{listener.fileno()}")
    assert b"secret" not in (child / "environ").read_bytes()
    assert listening not in theirs
    # Its end of the channel, and nothing else that could reach the agent.
    assert sum(each.startswith("socket:") for each in theirs) == 1


def test_the_bcc_that_is_found_is_named(compiler: Callable[..., Compiler], tmp_path: Path) -> None:
    found = find_bcc(compiler())
    assert (found.version, found.file) == ("0.0", str(tmp_path / "bcc.py"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ImportError('no libbcc.so.0')", "bcc cannot be loaded: no libbcc.so.0"),
        ("raise OSError('libLLVM.so: cannot open')", "cannot open"),
        ("lattice = 'body-centred cubic'", "another package that is also called bcc"),
    ],
)
def test_without_bcc_or_with_the_wrong_one_it_says_so(
    compiler: Callable[..., Compiler], source: Source, tmp_path: Path, text: str, words: str
) -> None:
    own = compiler()
    (tmp_path / "bcc.py").write_text(text, encoding="utf-8")
    for ask in (lambda: find_bcc(own), lambda: StubHeaders(own).build(source)):
        with pytest.raises(UnavailableError, match=words) as caught:
            ask()
        assert caught.value.reason == "no_bcc"


def test_the_node_headers_are_a_step_only_where_there_are_any(
    compiler: Callable[..., Compiler], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = compiler("assert 'BCC_KERNEL_SOURCE' not in os.environ")
    monkeypatch.setenv("BCC_KERNEL_SOURCE", "/somewhere")
    monkeypatch.setattr("probes.bpf.headers.of_the_node", lambda: None)
    with pytest.raises(UnavailableError, match="none") as caught:
        NodeHeaders(own).build(source)
    assert caught.value.reason == "no_headers"
    monkeypatch.setattr("probes.bpf.headers.of_the_node", lambda: Path("/lib/modules/x/build"))
    NodeHeaders(own).build(source).close()


@pytest.mark.parametrize(
    ("words", "chatter", "stage", "reason"),
    [
        (
            "Failed to compile BPF module <text>",
            "could not open bpf map: sw_produced, error: Operation not permitted\n",
            "compile",
            "missing_capability",
        ),
        ("Need super-user privileges to run", "", "verify", "missing_capability"),
        (
            "Failed to compile BPF module <text>",
            "program.bpf.c:3:1: error: unknown type name 'x'\n1 error generated.\n",
            "compile",
            "compile",
        ),
        (
            "Failed to load BPF program b'f': Invalid argument",
            "0: (79) r1 = *(u64 *)(r1 +34)\ninvalid bpf_context access off=34 size=8\n",
            "verify",
            "verifier",
        ),
    ],
)
def test_each_refusal_has_its_reason_and_carries_the_words_that_matter(
    words: str, chatter: str, stage: str, reason: str
) -> None:
    message: dict[str, Any] = {"failed": stage, "words": words}
    told = refusal("some_probe/program.bpf.c", Answer(message, [], chatter))
    assert told.reason == reason
    assert "some_probe/program.bpf.c" in told.detail
    assert told.mend
    if reason in {"compile", "verifier"}:
        assert chatter.splitlines()[-2 if reason == "compile" else -1] in told.detail
