"""Whatever a library's symbols say, the program that uses it computes the same."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.bpf.loader import ProgramType, load
from probes.elf.entries import entry_offset
from probes.elf.image import Image, NotCodeError
from probes.functions.function import Function
from probes.functions.places import find_places
from probes.functions.sites import FunctionSites
from probes.functions.totals import EXIT_PROGRAM
from probes.libraries.maps import LibraryNames
from tests.probes.functions.conftest import Program
from tests.probes.functions.test_calls import PROGRAMS, SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
LIBRARY = "libmisleading.so"
UNTOUCHED = "c3c3c3c3c3c3c3c3 11223344 c4878786 1122334455667788"
# What is probed of each: (exits, reason).
EXPECTED = {
    "constants": (1, ""),
    "whole": (1, ""),
    "shifted": (0, "no_exits"),
    "middle": (0, "not_a_function"),
    "table": (0, "not_a_function"),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; the library lies beside it."""
    gcc = shutil.which("gcc")
    if gcc is None or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    folder = tmp_path_factory.mktemp("harm")
    library = ["-shared", "-o", str(folder / LIBRARY), str(HERE / "misleading.S")]
    subprocess.run([gcc, *library], check=True)
    program = folder / "reader"
    subprocess.run([gcc, "-O1", "-o", str(program), str(HERE / "reader.c"), "-ldl"], check=True)
    return program


def timed(name: str) -> Function:
    return Function("add", LIBRARY, (name,), "enter_add", "leave_add")


def settle(sites: FunctionSites) -> None:
    while sites.pending:
        sites.advance()


@pytest.mark.parametrize("name", EXPECTED)
def test_only_what_is_surely_an_instruction_is_a_place_for_a_probe(reader: Path, name: str) -> None:
    with Image(str(reader.parent / LIBRARY)) as image:
        places = find_places(image, timed(name))
    exits, reason = EXPECTED[name]
    assert (sum(len(each.exits) for each in places.symbols), places.reason) == (exits, reason)
    assert bool(places.symbols) == (reason != "not_a_function")


@pytest.mark.root
@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_computes_the_same_while_misleading_functions_are_probed(
    reader: Path, name: str
) -> None:
    bpf = load(SOURCE, dict.fromkeys(PROGRAMS, ProgramType.UPROBE) | EXIT_PROGRAM, {})
    sites = FunctionSites(bpf, [timed(name)])
    program = Program(reader, reader.parent / LIBRARY)
    try:
        assert program.do("read") == UNTOUCHED
        (mapped,) = LibraryNames(LIBRARY).mapped_by(program.pid)
        sites.attach(mapped)
        settle(sites)
        assert sites.attached("add") == (EXPECTED[name][1] != "not_a_function")
        assert program.do("read") == UNTOUCHED
    finally:
        program.end()
        sites.close()
        bpf.close()


@dataclass
class Overwritten:
    """A library that is probed, a program that uses it, and another content for the file."""

    live: Path
    other: Path
    sites: FunctionSites
    programs: list[Program]

    def overwrite(self) -> None:
        """In place, as `cp` does."""
        with self.live.open("r+b") as file:
            file.write(self.other.read_bytes())


@pytest.fixture
def overwritten(reader: Path, tmp_path: Path) -> Iterator[Overwritten]:
    """Before it is overwritten."""
    source, other, live = tmp_path / "other.S", tmp_path / "other.so", tmp_path / LIBRARY
    # All functions two bytes on: what began an instruction is now inside one.
    source.write_text(
        (HERE / "misleading.S").read_text().replace(".text\n", ".text\n nop; nop\n", 1)
    )
    subprocess.run(["gcc", "-shared", "-o", str(other), str(source)], check=True)
    shutil.copyfile(reader.parent / LIBRARY, live)
    bpf = load(SOURCE, dict.fromkeys(PROGRAMS, ProgramType.UPROBE) | EXIT_PROGRAM, {})
    sites = FunctionSites(bpf, [timed("whole")])
    programs = [Program(reader, live)]
    try:
        (mapped,) = LibraryNames(LIBRARY).mapped_by(programs[0].pid)
        sites.attach(mapped)
        settle(sites)
        yield Overwritten(live, other, sites, programs)
    finally:
        for program in programs:
            program.end()
        sites.close()
        bpf.close()


@pytest.mark.root
def test_a_library_that_is_overwritten_in_place_is_probed_where_its_new_functions_are(
    overwritten: Overwritten, reader: Path
) -> None:
    sites = overwritten.sites
    overwritten.programs[0].end()
    overwritten.overwrite()
    sites.advance()
    assert sites._detacher.drain(30)
    settle(sites)
    overwritten.programs.append(Program(reader, overwritten.live))
    assert overwritten.programs[1].do("read") == UNTOUCHED
    assert sites.attached("add") == 1
    # Overwritten by what is no library, it is let go, and told.
    overwritten.live.write_bytes(b"no library any more" * 9)
    sites.advance()
    assert sites.status("test").reason == "unreadable_library"
    assert sites._detacher.drain(30)
    assert sites.attachments == 0


@pytest.mark.root
def test_a_library_that_is_overwritten_loses_its_probes_before_any_poll(
    overwritten: Overwritten, reader: Path
) -> None:
    (file,) = overwritten.sites._files.values()
    held = [each for site in file.sites.values() for each in site.attachments]
    assert held
    # Its last user is gone, and a job that comes now would find the probes there.
    overwritten.sites.detach(file.key)
    overwritten.programs[0].end()
    assert not any(each.detached for each in held)
    overwritten.overwrite()
    deadline = time.monotonic() + 30
    while not all(each.detached for each in held):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert overwritten.sites._detacher.drain(30)
    overwritten.programs.append(Program(reader, overwritten.live))
    assert overwritten.programs[1].do("read") == UNTOUCHED


def test_a_second_entry_of_a_function_is_one_only_where_an_instruction_begins(
    reader: Path,
) -> None:
    with Image(str(reader.parent / LIBRARY)) as image:
        (constants,) = find_places(image, timed("constants")).symbols
        # lea is seven bytes long, and mov three.
        address = constants.entry
        for begin in (7, 10):
            assert entry_offset(image, address + begin) == address + begin
        for inside in (1, 6, 8, 9):
            with pytest.raises(NotCodeError, match="inside an instruction"):
                entry_offset(image, address + inside)
