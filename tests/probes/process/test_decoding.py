from __future__ import annotations

import struct
from pathlib import Path

import pytest

from probes.process.cgroups import CgroupNames
from probes.process.ending import Ending, decode_ending, signal_name


def _record(kind: int, number: int) -> bytes:
    return struct.pack("=QIIIIII16s16s", 7, kind, 42, number, 1, 1, 0, b"python\0junk", b"kill")


def test_an_end_is_decoded_and_a_rings_padding_is_cut() -> None:
    expected = Ending("killed", 7, 42, "SIGSEGV", 1, "python", "kill")
    assert decode_ending(_record(0, 11)) == decode_ending(_record(0, 11) + b"\0" * 8) == expected
    assert decode_ending(_record(1, 9)).kind == "oom"


@pytest.mark.parametrize("record", [b"", b"x" * 63, _record(2, 9)])
def test_what_is_no_end_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="an end of"):
        decode_ending(record)


@pytest.mark.parametrize(
    ("number", "name"), [(9, "SIGKILL"), (35, "SIGRTMIN+1"), (0, "SIGRTMIN-34"), (64, "SIGRTMAX")]
)
def test_every_number_has_a_name(number: int, name: str) -> None:
    assert signal_name(number) == name


def test_groups_are_named_by_the_inode_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
    pod = tmp_path / f"kubepods/burstable/pod{uid}/{'ab' * 32}"
    pod.mkdir(parents=True)
    names = CgroupNames((Path("/nonexistent"), tmp_path))
    ids = {pod.stat().st_ino, tmp_path.stat().st_ino, 1 << 40}
    assert names.containers(ids) == {
        pod.stat().st_ino: f"pod:{uid}",
        tmp_path.stat().st_ino: "",
        1 << 40: "unknown",
    }


def test_without_a_unified_hierarchy_every_group_is_unknown() -> None:
    assert CgroupNames(()).containers({0, 5}) == {0: "", 5: "unknown"}
