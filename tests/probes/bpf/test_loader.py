"""Real programs on the running kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.bpf import capabilities, headers, tracefs
from probes.bpf.errors import UnavailableError
from probes.bpf.loader import BpfObject, ProgramType, load

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

COUNTS_AND_RECORDS = """
SW_COUNTERS(1, 2);
SW_HASH(calls, u32, u64, MAP_ENTRIES);
SW_EVENTS(records, RING_PAGES);
struct record { u64 pid; u64 pad[30]; };

int on_hit(void *ctx)
{
    u64 id = bpf_get_current_pid_tgid(), one = 1;
    u32 thread = (u32)id, number;
    struct record record = {};
    if ((u32)(id >> 32) != PID)
        return 0;
    sw_count(sw_produced, 0);
    record.pid = id >> 32;
    if (sw_output(records, ctx, &record))
        sw_count(sw_lost, 0);
    number = bpf_ktime_get_ns();
    if (sw_update(calls, &number, &one))
        sw_count(sw_lost, 1);
    return 0;
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "program.bpf.c"
    path.write_text(COUNTS_AND_RECORDS, encoding="utf-8")
    return path


def _loaded(source: Path, kind: ProgramType) -> BpfObject:
    defines = {"PID": os.getpid(), "MAP_ENTRIES": 1, "RING_PAGES": 1}
    return load(source, {"on_hit": kind}, defines)


@pytest.fixture
def on_getppid(source: Path) -> Iterator[BpfObject]:
    loaded = _loaded(source, ProgramType.UPROBE)
    path, offset = _getppid()
    loaded.attach_uprobe("on_hit", path, offset)
    yield loaded
    loaded.close()


def _getppid() -> tuple[str, int]:
    return _place("getppid")


def _place(function: str) -> tuple[str, int]:
    """The file that holds a function of libc, and the function's offset in it."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, _, start, *_, path = line.split(maxsplit=5) + [""] * (len(line.split()) < 6)
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= address < high:
            return path.strip(), address - low + int(start, 16)
    raise AssertionError(f"{function} is mapped nowhere")


@pytest.mark.parametrize("at_once", [True, False])
def test_places_of_one_file_are_attached_at_once_where_the_kernel_can_and_singly_elsewhere(
    source: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if at_once and not capabilities.has_uprobe_multi():
        pytest.skip("before Linux 6.6 every uprobe is attached by itself")
    loaded = _loaded(source, ProgramType.UPROBE)
    # Even a program that was loaded for links can be attached singly.
    monkeypatch.setattr(capabilities, "has_uprobe_multi", lambda: at_once)
    places = [_place(name) for name in ("getppid", "getuid", "getgid")]
    offsets = [offset for _, offset in places]
    try:
        attached = loaded.attach_uprobes("on_hit", places[0][0], offsets)
        assert len(attached) == (1 if at_once else 3)
        assert sum(each.places for each in attached) == 3
        for ask in (os.getppid, os.getuid, os.getgid, os.getppid):
            ask()
        for each in attached:
            loaded.detach(each)
        os.getppid()
        assert loaded.produced() == [4]
    finally:
        loaded.close()


@pytest.mark.each_kernel
def test_a_ring_of_one_page_loses_records_and_says_how_many(on_getppid: BpfObject) -> None:
    reader = on_getppid.events("records", 1)
    for _ in range(200):
        os.getppid()
    produced, (ring_full, _) = on_getppid.produced()[0], on_getppid.lost()
    records = reader.drain()
    assert produced == 200
    assert ring_full > 0
    assert len(records) == produced - ring_full
    assert int.from_bytes(records[0][:8], sys.byteorder) == os.getpid()


@pytest.mark.each_kernel
def test_a_full_map_is_counted_under_its_own_reason(on_getppid: BpfObject) -> None:
    for _ in range(10):
        os.getppid()
    assert on_getppid.lost()[1] == 9
    assert len(list(on_getppid.map("calls").items())) == 1


@pytest.mark.each_kernel
def test_a_map_value_can_be_taken_once(on_getppid: BpfObject) -> None:
    calls = on_getppid.map("calls")
    calls.update(b"abcd", b"12345678")
    assert calls.take(b"abcd") == b"12345678"
    assert calls.take(b"abcd") is None
    assert not calls.delete(b"abcd")


@pytest.mark.each_kernel
def test_without_a_ring_buffer_records_come_through_perf_buffers(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "has_ring_buffer", lambda: False)
    loaded = _loaded(source, ProgramType.UPROBE)
    try:
        reader = loaded.events("records", 8)
        path, offset = _getppid()
        loaded.attach_uprobe("on_hit", path, offset)
        for _ in range(5):
            os.getppid()
        assert len(reader.drain()) == loaded.produced()[0] == 5
    finally:
        loaded.close()


@pytest.mark.each_kernel
def test_without_the_uprobe_pmu_an_entry_of_ours_is_made_and_removed(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "uprobe_pmu", lambda: None)
    listing = tracefs.folder() / "uprobe_events"
    loaded = _loaded(source, ProgramType.UPROBE)
    try:
        attached = loaded.attach_uprobe("on_hit", *_getppid())
        assert f"stallwatch/u_{os.getpid()}_" in listing.read_text(encoding="utf-8")
        os.getppid()
        assert loaded.produced() == [1]
        loaded.detach(attached)
    finally:
        loaded.close()
    assert f"stallwatch/u_{os.getpid()}_" not in listing.read_text(encoding="utf-8")


def test_without_the_uprobe_pmu_the_open_file_is_probed_whatever_its_name_means_here(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "uprobe_pmu", lambda: None)
    library, offset = _getppid()
    path = tmp_path / "a name with spaces.so"
    shutil.copy(library, path)
    loaded = _loaded(source, ProgramType.UPROBE)
    try:
        with path.open("rb") as file:
            path.unlink()  # as unreachable by name as a file of another mount namespace
            loaded.attach_uprobe("on_hit", f"/proc/{os.getpid()}/fd/{file.fileno()}", offset)
    finally:
        loaded.close()


def test_what_a_killed_agent_left_in_uprobe_events_is_removed() -> None:
    path, offset = _getppid()
    code = f"from probes.bpf import tracefs; tracefs.add_uprobe({path!r}, {offset}, 0)"
    root = headers.STUBS.parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
    assert tracefs.remove_stale() >= 1
    listing = (tracefs.folder() / "uprobe_events").read_text(encoding="utf-8")
    assert not tracefs.stale_events(listing)


def test_a_program_that_does_not_compile_says_so_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.bpf.c"
    path.write_text("int on_hit(void *ctx) { return nonsense; }", encoding="utf-8")
    with pytest.raises(UnavailableError, match="nonsense") as caught:
        load(path, {"on_hit": ProgramType.TRACEPOINT})
    assert caught.value.reason == "compile"
    assert "program.bpf.c:1" in caught.value.detail
    assert capfd.readouterr().err == ""


def test_a_program_that_the_verifier_refuses_says_so_and_prints_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.bpf.c"
    path.write_text("int on_hit(void *ctx) { return *(int *)(long)ctx + *(int *)8; }", "utf-8")
    with pytest.raises(UnavailableError) as caught:
        load(path, {"on_hit": ProgramType.TRACEPOINT})
    assert caught.value.reason == "verifier"
    assert capfd.readouterr().err == ""


def test_the_compiler_is_never_loaded_into_this_process(source: Path) -> None:
    # In a process of its own: other tests of this one may have imported bcc.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from probes.bpf.loader import ProgramType, load\n"
        "defines = {'PID': 1, 'MAP_ENTRIES': 1, 'RING_PAGES': 1}\n"
        "loaded = load(Path(sys.argv[1]), {'on_hit': ProgramType.UPROBE}, defines)\n"
        "loaded.events('records', 1)\n"
        "assert 'bcc' not in sys.modules\n"
        "assert 'LLVM' not in Path('/proc/self/maps').read_text()\n"
        "loaded.close()\n"
    )
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code, str(source)], check=True, cwd=root)


def test_a_uprobe_in_a_file_that_is_gone_is_a_reason(source: Path) -> None:
    loaded = _loaded(source, ProgramType.UPROBE)
    try:
        with pytest.raises(UnavailableError, match=os.strerror(errno.ENOENT)) as caught:
            loaded.attach_uprobe("on_hit", "/nonexistent/library.so", 16)
        assert caught.value.reason == "no_uprobe"
    finally:
        loaded.close()


def test_a_tracepoint_that_the_kernel_lacks_is_a_reason(source: Path) -> None:
    loaded = _loaded(source, ProgramType.TRACEPOINT)
    try:
        with pytest.raises(UnavailableError) as caught:
            loaded.attach_tracepoint("on_hit", "sched", "nothing_of_the_kind")
        assert caught.value.reason == "no_tracepoint"
    finally:
        loaded.close()


def test_the_stub_headers_serve_arm64_too() -> None:
    code = (
        "from bcc import BPF\n"
        "text = b'int f(struct pt_regs *ctx) { return PT_REGS_PARM1(ctx) + PT_REGS_SP(ctx); }'\n"
        # Debian 13's clang has this on by default on x86, and refuses it for another target.
        "flags = ['-DLINUX_VERSION_CODE=1', '-fcf-protection=none']\n"
        "assert BPF(text=text, cflags=flags).dump_func(b'f')\n"
    )
    environment = {"ARCH": "arm64", "BCC_KERNEL_SOURCE": str(headers.STUBS)}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, env={**os.environ, **environment}
    )
