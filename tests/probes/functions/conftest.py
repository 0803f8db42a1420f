"""A compiled library with functions that are called in every way that matters, and its caller."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.probes.job import Job, compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent


class Program(Job):
    """A running caller."""

    numbers = 2

    def __init__(self, *command: str | Path) -> None:
        *prefix, path = map(str, command)
        super().__init__(path, *prefix)


@pytest.fixture(scope="session")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The caller; libswcalls.so lies beside it."""
    return build_caller(tmp_path_factory.mktemp("calls"))


def build_caller(folder: Path) -> Path:
    command = [compiler("cc"), "-O2"]
    library, program = folder / "libswcalls.so", folder / "caller"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libswcalls.so", "-o", str(library)]
    subprocess.run([*command, *shared, str(HERE / "library.cc")], check=True)
    linked = ["-pthread", "-ldl", f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([*command, str(HERE / "caller.cc"), str(library), *linked], check=True)
    return program


@pytest.fixture(scope="session")
def hazards(caller: Path) -> Path:
    """The program that leaves and interrupts probed functions; it uses the caller's library."""
    library, program = caller.with_name("libswcalls.so"), caller.with_name("hazards")
    linked = ["-pthread", "-ldl", f"-Wl,-rpath,{caller.parent}", "-o", str(program)]
    command = ["g++", "-O2", str(HERE / "hazards.cc"), str(library), *linked]
    subprocess.run(command, check=True)
    return program


@pytest.fixture
def start(caller: Path) -> Iterator[Callable[[], Program]]:
    """Start callers, and end them."""
    programs: list[Program] = []

    def run() -> Program:
        programs.append(Program(caller))
        return programs[-1]

    yield run
    for program in programs:
        program.end()
