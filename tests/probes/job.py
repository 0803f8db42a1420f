"""Stand-ins for libraries that a probe looks into, and the jobs that use them."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def compiler(language: str = "c") -> str:
    """The compiler of a language, "c" or "cc"."""
    name = {"c": "gcc", "cc": "g++"}[language]
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} for the stand-in")
    return found


def build(folder: Path, soname: str, library: Path, program: Path, *flags: str) -> Path:
    """Compile a library, with `flags`, and a program that uses it; the program's path."""
    built, job = folder / soname, folder / "program"
    shared = [*flags, "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", built, library]
    linked = ["-o", job, program, built, "-pthread", f"-Wl,-rpath,{folder}"]
    for source, options in ((library, shared), (program, linked)):
        command = [compiler(source.suffix[1:]), "-O2", *map(str, options)]
        subprocess.run(command, check=True)
    return job


class Job:
    """A running job: it prints its pid, and answers each line that it reads with one line.

    `prefix` stands in front of its command; keywords are of its environment. `numbers`: how many it
    reads behind a word, 0 where it reads a line.
    """

    numbers = 0

    def __init__(self, path: Path | str, *prefix: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, str(path)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        self.pid = int(self.read())

    def read(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self, word: str, *numbers: int) -> None:
        """Tell it what to do."""
        assert self.process.stdin is not None
        padding = [0] * (self.numbers - len(numbers))
        self.process.stdin.write(" ".join(map(str, (word, *numbers, *padding))) + "\n")
        self.process.stdin.flush()

    def do(self, word: str, *numbers: int) -> str:
        """Tell it what to do and wait until it is done; its answer."""
        self.begin(word, *numbers)
        return self.read()

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
