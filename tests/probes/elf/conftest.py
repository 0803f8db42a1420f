"""Compiles samples; where there is no compiler, tests that need one are skipped."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pathlib import Path


class Compile(Protocol):
    def __call__(self, source: str, *flags: str, suffix: str = ".c") -> str: ...


@pytest.fixture
def compile_library(tmp_path: Path) -> Compile:
    """Compile a source text to a shared library; returns its path."""

    def compile_(source: str, *flags: str, suffix: str = ".c") -> str:
        compiler = shutil.which("gcc" if suffix == ".c" else "g++")
        if compiler is None:
            pytest.skip(f"no compiler for {suffix}")
        text, library = tmp_path / f"sample{suffix}", tmp_path / "libsample.so"
        text.write_text(source)
        command = [compiler, "-O2", "-shared", "-fPIC", *flags, "-o", str(library), str(text)]
        subprocess.run(command, check=True)
        return str(library)

    return compile_
