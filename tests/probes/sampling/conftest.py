"""A program that spends its CPU time in two functions, in a proportion that it is told."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = r"""
#define NOINLINE __attribute__((noinline))
volatile unsigned long sink;
NOINLINE void hot(unsigned long turns) { while (turns--) sink += turns; }
NOINLINE void cool(unsigned long turns) { while (turns--) sink ^= turns; }
"""
# Argument: of a hundred turns how many are spent in hot().
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
void hot(unsigned long turns), cool(unsigned long turns);
int main(int count, char **arguments) {
  unsigned long share = atoi(arguments[1]);
  puts("up"); fflush(stdout);
  for (;;) { hot(share * 1000); cool((100 - share) * 1000); }
}
"""


@pytest.fixture(scope="session")
def spinner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; its libhot.so lies beside it."""
    compiler = shutil.which("gcc")
    assert compiler, "a compiler is needed for the stand-in: apt-get install gcc"
    folder = tmp_path_factory.mktemp("spinner")
    (folder / "library.c").write_text(LIBRARY)
    (folder / "program.c").write_text(PROGRAM)
    library, program = folder / "libhot.so", folder / "program"
    shared = ["-O1", "-shared", "-fPIC", "-o", str(library), str(folder / "library.c")]
    subprocess.run([compiler, *shared], check=True)
    linked = [str(folder / "program.c"), str(library), f"-Wl,-rpath,{folder}", "-o", str(program)]
    subprocess.run([compiler, "-O1", *linked], check=True)
    return program
