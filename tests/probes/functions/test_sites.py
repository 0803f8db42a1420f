"""Which files are probed, and that nothing of them is left."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from probes.libraries.maps import LibraryNames
from probes.sampling.addresses import regions
from tests.probes.functions.conftest import Program
from tests.probes.functions.test_calls import LIBRARY, Probed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root


@pytest.fixture
def two_mounts(caller: Path, tmp_path: Path) -> Iterator[list[Path]]:
    """The caller's folder through two overlay mounts, as two containers of one image have it."""
    mounts: list[Path] = []
    for name in ("one", "two"):
        parts = {part: tmp_path / f"{name}-{part}" for part in ("upper", "work", "merged")}
        for part in parts.values():
            part.mkdir()
        options = f"lowerdir={caller.parent},upperdir={parts['upper']},workdir={parts['work']}"
        command = ["mount", "-t", "overlay", "overlay", "-o", options, str(parts["merged"])]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("no overlay mounts here")
        mounts.append(parts["merged"])
    yield mounts
    for mount in mounts:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_file_that_two_containers_share_is_probed_once_and_as_long_as_one_has_it(
    two_mounts: list[Path],
) -> None:
    probed = Probed()
    programs = [
        Program("env", f"LD_LIBRARY_PATH={mount}", mount / "caller") for mount in two_mounts
    ]
    try:
        one, two = (probed.attach(program.pid) for program in programs)
        assert one != two
        assert probed.sites.count == 1
        for program in programs:
            program.do("add", 10)
        calls = {each.process.pid: each.total.calls for each in probed.look().calls if each.process}
        assert calls == {program.pid: 10 for program in programs}
        assert probed.sites.timed(two, "add")
        # Its code is found in both, for whoever samples it.
        spans = probed.sites.spans("add")
        assert {span.key for span in spans} == {one, two}
        assert [len(regions(program.pid, spans)) for program in programs] == [1, 1]
        probed.sites.detach(one)
        programs[1].do("add", 5)
        assert probed.calls(programs[1].pid, "add").calls == 5
        probed.sites.detach(two)
        assert probed.sites._detacher.drain(30)
        assert probed.sites.attachments == 0
    finally:
        for program in programs:
            program.end()
        probed.close()


def test_a_file_that_has_users_again_soon_has_its_probes_still(caller: Path) -> None:
    probed = Probed(linger_seconds=3600)
    programs = [Program(caller)]
    try:
        key = probed.attach(programs[0].pid)
        held = probed.sites.attachments
        programs[0].end()
        probed.sites.detach(key)
        assert (probed.sites.count, probed.sites.attachments) == (0, held)
        programs.append(Program(caller))
        programs[1].do("add", 7)  # before the watch tells of it
        assert probed.attach(programs[1].pid) == key
        assert (probed.sites.count, probed.sites.attachments) == (1, held)
        programs[1].do("add", 5)
        assert probed.calls(programs[1].pid, "add").calls == 12
        probed.sites._linger_seconds = 0
        probed.sites.detach(key)
        assert probed.sites._detacher.drain(30)
        assert probed.sites.attachments == 0
    finally:
        for program in programs:
            program.end()
        probed.close()


def test_a_file_that_got_a_second_name_meanwhile_is_the_same(caller: Path, tmp_path: Path) -> None:
    probed = Probed(linger_seconds=3600)
    programs = [Program(caller)]
    try:
        key = probed.attach(programs[0].pid)
        held = probed.sites.attachments
        programs[0].end()
        probed.sites.detach(key)
        # As installers do that link files of a cache: the time of change is another.
        (tmp_path / "other").hardlink_to(caller.with_name(LIBRARY))
        programs.append(Program(caller))
        probed.attach(programs[1].pid)
        programs[1].do("add", 5)
        assert probed.calls(programs[1].pid, "add").calls == 5
        assert probed.sites.attachments == held
    finally:
        for program in programs:
            program.end()
        probed.close()


def test_a_file_that_is_read_while_it_is_copied_is_read_again_when_it_is_whole(
    caller: Path, tmp_path: Path
) -> None:
    library = tmp_path / LIBRARY
    whole = caller.with_name(LIBRARY).read_bytes()
    library.write_bytes(whole)
    shutil.copy(caller, tmp_path / "caller")
    program = Program("env", f"LD_LIBRARY_PATH={tmp_path}", tmp_path / "caller")
    probed = Probed()
    try:
        probed.attach(program.pid)
        held = probed.sites.attachments
        with library.open("r+b") as file:
            file.truncate(100)
            probed.sites.advance()
            assert probed.sites.status("test").reason == "unreadable_library"
            file.write(whole)
        for _ in range(100):  # the old probes are let go of meanwhile
            probed.sites.advance()
            if probed.sites.attachments == held and not probed.sites.pending:
                break
            time.sleep(0.05)
        assert probed.sites.status("test").reason == ""
        assert (probed.sites.count, probed.sites.attachments) == (1, held)
    finally:
        program.end()
        probed.close()


def test_more_files_than_the_bound_are_refused_and_told(caller: Path) -> None:
    probed = Probed()
    program = Program(caller)
    try:
        probed.sites._max_files = 0
        (mapped,) = LibraryNames(LIBRARY).mapped_by(program.pid)
        probed.sites.attach(mapped)
        assert probed.sites.status("test").reason == "too_many_libraries"
        probed.sites.detach(mapped.key)
        probed.sites._max_files, probed.sites._max_attachments = 1, 3
        probed.sites.attach(mapped)
        assert probed.sites.status("test").reason == "too_many_attachments"
        assert probed.sites.attachments <= 3
    finally:
        program.end()
        probed.close()
