"""The two system calls behind every BPF loader, bpf(2) and perf_event_open(2), by ctypes.

Layouts: union bpf_attr and struct bpf_map_info of include/uapi/linux/bpf.h, struct
perf_event_attr of include/uapi/linux/perf_event.h. All are user-space ABI: fields are only
ever appended. Failures are OSError with the kernel's errno.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import platform
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERS = {"x86_64": (321, 298), "aarch64": (280, 241)}  # (bpf, perf_event_open)

MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, MAP_DELETE, MAP_NEXT_KEY = 0, 1, 2, 3, 4
PROG_GET_FD_BY_ID = 13
OBJ_GET_INFO_BY_FD = 15
RAW_TRACEPOINT_OPEN = 17
MAP_LOOKUP_AND_DELETE = 21
MAP_LOOKUP_BATCH = 24
LINK_CREATE = 28
ENABLE_STATS = 32
TRACE_UPROBE_MULTI = 48  # enum bpf_attach_type

MAP_TYPE_HASH, MAP_TYPE_PERCPU_HASH, MAP_TYPE_PERCPU_ARRAY, MAP_TYPE_LRU_HASH = 1, 5, 6, 9
MAP_TYPE_ARRAY_OF_MAPS, MAP_TYPE_RINGBUF = 12, 27
PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT = 1, 2
PERF_COUNT_SW_CPU_CLOCK = 0
_EXCLUDE_IDLE, _FREQUENCY = 1 << 7, 1 << 10  # bits of struct perf_event_attr

_IOC_ENABLE, _IOC_SET_BPF = 0x2400, 0x40042408
_PERF_FLAG_FD_CLOEXEC = 8
_ENOTSUPP = 524  # the kernel's own, which errno does not name
_PERF_ATTR_SIZE = 72  # PERF_ATTR_SIZE_VER1: up to config2

_libc = ctypes.CDLL(None, use_errno=True)


def _numbers() -> tuple[int, int]:
    try:
        return _NUMBERS[platform.machine()]
    except KeyError:
        raise OSError(errno.ENOSYS, f"no BPF support for {platform.machine()}") from None


def bpf(command: int, attr: bytes | bytearray) -> tuple[int, bytes]:
    """Make the system call: (return value, the attribute block as the kernel left it)."""
    block = ctypes.create_string_buffer(bytes(attr), len(attr))
    result = int(_libc.syscall(_numbers()[0], command, block, len(attr)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result, block.raw


def _address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)


def map_lookup(map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """The value of a key, None when absent."""
    return _lookup(MAP_LOOKUP, map_fd, key, value_bytes)


def map_take(map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """Remove a key and return its last value; one step where the kernel can (5.14)."""
    try:
        return _lookup(MAP_LOOKUP_AND_DELETE, map_fd, key, value_bytes)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP, _ENOTSUPP}:
            raise
    value = map_lookup(map_fd, key, value_bytes)
    map_delete(map_fd, key)
    return value


def _lookup(command: int, map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    own_key = ctypes.create_string_buffer(key, len(key))
    value = ctypes.create_string_buffer(value_bytes)
    try:
        bpf(command, struct.pack("=IIQQQ", map_fd, 0, _address(own_key), _address(value), 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return value.raw


def map_update(map_fd: int, key: bytes, value: bytes) -> None:
    """Set a key."""
    own_key = ctypes.create_string_buffer(key, len(key))
    own_value = ctypes.create_string_buffer(value, len(value))
    attr = struct.pack("=IIQQQ", map_fd, 0, _address(own_key), _address(own_value), 0)
    bpf(MAP_UPDATE, attr)


def map_delete(map_fd: int, key: bytes) -> bool:
    """Remove a key; False when it was not there."""
    own_key = ctypes.create_string_buffer(key, len(key))
    try:
        bpf(MAP_DELETE, struct.pack("=IIQQQ", map_fd, 0, _address(own_key), 0, 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def map_keys(map_fd: int, key_bytes: int, limit: int) -> list[bytes]:
    """All keys, at most `limit`: a map that changes meanwhile may restart the walk."""
    keys: dict[bytes, None] = {}
    following = ctypes.create_string_buffer(key_bytes)
    current: ctypes.Array[ctypes.c_char] | None = None
    for _ in range(limit):
        at = 0 if current is None else _address(current)
        try:
            bpf(MAP_NEXT_KEY, struct.pack("=IIQQQ", map_fd, 0, at, _address(following), 0))
        except OSError as error:
            if error.errno == errno.ENOENT:
                break
            raise
        keys[following.raw] = None
        current = ctypes.create_string_buffer(following.raw, key_bytes)
    return list(keys)


def map_lookup_batch(
    map_fd: int, size: int, place: int, following: int, keys: int, values: int
) -> tuple[int, int]:
    """(entries copied, errno; ENOENT: these are the last). The rest are addresses of buffers; no
    OSError, because the kernel tells the count where it fails too.
    """  # noqa: D205 - one sentence
    attr = struct.pack("=QQQQIIQQ", place, following, keys, values, size, map_fd, 0, 0)
    block = ctypes.create_string_buffer(attr, len(attr))
    failed = _libc.syscall(_numbers()[0], MAP_LOOKUP_BATCH, block, len(attr)) < 0
    error = ctypes.get_errno() if failed else 0
    return struct.unpack_from("=I", block.raw, 32)[0], error


@dataclass(frozen=True, slots=True)
class MapInfo:
    """The start of struct bpf_map_info."""

    type: int
    key_bytes: int
    value_bytes: int
    max_entries: int

    @property
    def per_cpu(self) -> bool:
        """One value per possible CPU, each padded to 8 bytes."""
        return self.type in {MAP_TYPE_PERCPU_HASH, MAP_TYPE_PERCPU_ARRAY}

    @property
    def fills(self) -> bool:
        """Whether entries come and go, so that it can be full."""
        return self.type in {MAP_TYPE_HASH, MAP_TYPE_PERCPU_HASH, MAP_TYPE_LRU_HASH}


def _object_info(fd: int, size: int) -> bytes:
    info = ctypes.create_string_buffer(size)
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, size, _address(info)))
    return info.raw


def map_info(map_fd: int) -> MapInfo:
    """What the kernel says of a map."""
    kind, _, key, value, entries = struct.unpack_from("=5I", _object_info(map_fd, 80))
    return MapInfo(kind, key, value, entries)


# Offset of `recursion_misses` in struct bpf_prog_info: 7 u32/u64 groups precede it; counted from
# the uapi header, where it follows run_time_ns and run_cnt (kernel 5.12).
_RECURSION_MISSES_OFFSET = 208


def recursion_misses(program_fd: int) -> int:
    """How often the kernel skipped the program because BPF already ran on that CPU.

    0 on kernels that do not count it (before 5.12).
    """
    raw = _object_info(program_fd, 224)
    return int(struct.unpack_from("=Q", raw, _RECURSION_MISSES_OFFSET)[0])


# Of struct bpf_prog_info: `type` is first, `name` is char[16].
_NAME_OFFSET, _RUN_TIME_OFFSET = 64, 192


@dataclass(frozen=True, slots=True)
class ProgramRuns:
    """What the kernel counts of a program while statistics are on. `kind`: enum bpf_prog_type."""

    kind: int
    name: str
    seconds: float
    runs: int


def enable_statistics() -> int:
    """Let the kernel time all programs until the fd is closed (5.8); each run then costs more."""
    return bpf(ENABLE_STATS, bytes(4))[0]


def program_runs(program_id: int) -> ProgramRuns:
    """What the kernel has counted of a program. Raises OSError ENOENT when it is gone."""
    fd = bpf(PROG_GET_FD_BY_ID, struct.pack("=III", program_id, 0, 0))[0]
    try:
        raw = _object_info(fd, 224)
    finally:
        os.close(fd)
    (kind,) = struct.unpack_from("=I", raw)
    nanoseconds, runs = struct.unpack_from("=QQ", raw, _RUN_TIME_OFFSET)
    name = raw[_NAME_OFFSET : _NAME_OFFSET + 16].rstrip(b"\0").decode(errors="replace")
    return ProgramRuns(kind, name, nanoseconds / 1e9, runs)


def map_create(kind: int, key_bytes: int, value_bytes: int, max_entries: int) -> int:
    """A fresh map's fd; used to try what the kernel has."""
    attr = struct.pack("=5I", kind, key_bytes, value_bytes, max_entries, 0)
    return bpf(MAP_CREATE, attr + bytes(52))[0]


def raw_tracepoint_open(name: str, program_fd: int) -> int:
    """Attach to a raw tracepoint, which needs no tracefs; closing the fd detaches."""
    own_name = ctypes.create_string_buffer(name.encode())
    return bpf(RAW_TRACEPOINT_OPEN, struct.pack("=QII", _address(own_name), program_fd, 0))[0]


def uprobe_multi(program_fd: int, path: str, offsets: Sequence[int]) -> int:
    """Run a program at many offsets of a file (6.6); closing the fd detaches all of them.

    The program must be loaded with TRACE_UPROBE_MULTI as its expected attach type.
    """
    name = ctypes.create_string_buffer(path.encode())
    places = (ctypes.c_uint64 * len(offsets))(*offsets)
    start = struct.pack("=IIII", program_fd, 0, TRACE_UPROBE_MULTI, 0)
    where = struct.pack("=QQQQ", _address(name), ctypes.addressof(places), 0, 0)
    # The last word is the pid, 0: any process.
    return bpf(LINK_CREATE, start + where + struct.pack("=IIII", len(offsets), 0, 0, 0))[0]


def perf_event_open(
    kind: int, config: int, *, path: str = "", offset: int = 0, pid: int = -1
) -> int:
    """Open an event: a tracepoint (`config` is its id) or the uprobe PMU.

    The kernel resolves `path` now and keeps the inode; closing the fd detaches.
    """
    own_path = ctypes.create_string_buffer(os.fsencode(path)) if path else None
    config1 = 0 if own_path is None else _address(own_path)
    attr = struct.pack(
        "=IIQQQQQIIQQ", kind, _PERF_ATTR_SIZE, config, 1, 0, 0, 0, 1, 0, config1, offset
    )
    return _perf_event_open(attr, pid, 0 if pid < 0 else -1)


def perf_clock_open(cpu: int, hertz: int) -> int:
    """Open the kernel's clock of one CPU, whatever runs there and while it is not idle."""
    what = (PERF_TYPE_SOFTWARE, _PERF_ATTR_SIZE, PERF_COUNT_SW_CPU_CLOCK, hertz)
    flags = _EXCLUDE_IDLE | _FREQUENCY
    return _perf_event_open(struct.pack("=IIQQQQQIIQQ", *what, 0, 0, flags, 0, 0, 0, 0), -1, cpu)


def _perf_event_open(attr: bytes, pid: int, cpu: int) -> int:
    block = ctypes.create_string_buffer(attr, len(attr))
    fd = int(
        _libc.syscall(_numbers()[1], block, pid, cpu, -1, ctypes.c_ulong(_PERF_FLAG_FD_CLOEXEC))
    )
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def perf_event_attach(event_fd: int, program_fd: int) -> None:
    """Let a perf event run a BPF program."""
    fcntl.ioctl(event_fd, _IOC_SET_BPF, program_fd)
    fcntl.ioctl(event_fd, _IOC_ENABLE, 0)


@functools.cache
def possible_cpus() -> int:
    """How many values a per-CPU map holds: the highest possible CPU plus one."""
    text = Path("/sys/devices/system/cpu/possible").read_text(encoding="ascii")
    return int(text.strip().replace(",", "-").split("-")[-1]) + 1


def online_cpus() -> list[int]:
    """The CPUs that run now: "0-3,8" is 0, 1, 2, 3 and 8."""
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii").strip()
    ends = [part.split("-") for part in text.split(",")]
    return [cpu for part in ends for cpu in range(int(part[0]), int(part[-1]) + 1)]


def kernel_release() -> tuple[int, int]:
    """(6, 18) for "6.18.44-…"."""
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)
