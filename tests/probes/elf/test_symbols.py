from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.elf.exits import find_exits
from probes.elf.image import ElfError, Image
from probes.elf.symbols import find_functions, is_function_named

if TYPE_CHECKING:
    from collections.abc import Callable

CPLUSPLUS = """
#include <vector>
namespace c10d {
struct Reducer {
  void finalize();
  void finalize(std::vector<int> const& buckets) const;
  void finalize_all();
};
int sink;
__attribute__((noinline)) void Reducer::finalize() { sink = 1; }
__attribute__((noinline)) void Reducer::finalize(std::vector<int> const& b) const {
  auto each = [&](int x) __attribute__((noinline)) { sink += x; };
  for (int x : b) each(x);
}
void Reducer::finalize_all() { finalize(); }
static __attribute__((noinline, used)) int hidden(int x) { return x + sink; }
}
"""


def test_all_overloads_are_found_by_the_name_without_parameters(
    compile_library: Callable[..., str],
) -> None:
    with Image(compile_library(CPLUSPLUS, suffix=".cc")) as image:
        names = [each.demangled for each in find_functions(image, "c10d::Reducer::finalize")]
    assert sorted(names) == [
        "c10d::Reducer::finalize()",
        "c10d::Reducer::finalize(std::vector<int, std::allocator<int> > const&) const",
    ]


def test_a_function_that_is_not_exported_is_found_in_the_full_symbol_table(
    compile_library: Callable[..., str],
) -> None:
    with Image(compile_library(CPLUSPLUS, suffix=".cc")) as image:
        (hidden,) = find_functions(image, "c10d::hidden")
    assert hidden.size > 0


def test_a_stripped_library_has_only_its_exported_functions(
    compile_library: Callable[..., str],
) -> None:
    with Image(compile_library(CPLUSPLUS, "-s", suffix=".cc")) as image:
        assert find_functions(image, "c10d::hidden") == ()
        assert len(find_functions(image, "c10d::Reducer::finalize")) == 2


def test_the_address_and_the_file_offset_lead_to_the_same_bytes(
    compile_library: Callable[..., str],
) -> None:
    source = "__attribute__((aligned(4096))) int padding[4096] = {1}; int answer(void){return 42;}"
    path = compile_library(source)
    with Image(path) as image:
        (answer,) = find_functions(image, "answer")
        code = image.read(answer.address, answer.size)
        at = image.file_offset(answer.address)
    assert Path(path).read_bytes()[at : at + answer.size] == code


@pytest.mark.parametrize(
    ("demangled", "expected"),
    [
        ("a::f", True),
        ("a::f()", True),
        ("a::f(int (*)(char), std::vector<int>) const", True),
        ("a::f[abi:cxx11]()", True),
        ("a::f() [clone .cold]", True),
        ("a::ff()", False),
        ("a::f()::{lambda(int)#1}::operator()(int) const", False),
        ("a::f<int>()", False),
        ("b::a::f()", False),
    ],
)
def test_a_name_matches_only_the_function_itself(demangled: str, expected: bool) -> None:
    assert is_function_named(demangled, "a::f") is expected


BROKEN = {
    "empty": (b"", "not an ELF file"),
    "text": (b"#!/bin/sh\necho no\n" * 20, "not an ELF file of 64 bits"),
    "only magic": (b"\x7fELF\x02\x01\x01" + b"\0" * 9, "not an ELF file"),
    "32 bits": (b"\x7fELF\x01\x01\x01" + b"\0" * 90, "not an ELF file of 64 bits"),
    "another machine": (b"\x7fELF\x02\x01\x01" + b"\0" * 90, "for x86-64 or arm64"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_library_is_one_clear_error(name: str, tmp_path: Path) -> None:
    content, message = BROKEN[name]
    path = tmp_path / "libbroken.so"
    path.write_bytes(content)
    with pytest.raises(ElfError, match=message):
        Image(str(path))


def find_in(path: Path) -> None:
    with Image(str(path)) as image:
        for function in find_functions(image, "f"):
            find_exits(image, function)


def test_a_library_cut_short_is_one_clear_error(
    compile_library: Callable[..., str], tmp_path: Path
) -> None:
    whole = Path(compile_library("int f(void){return 1;}")).read_bytes()
    short = tmp_path / "short.so"
    for length in range(0, len(whole), 499):
        short.write_bytes(whole[:length])
        with pytest.raises(ElfError):
            find_in(short)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no compiler for .c")
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "f.c").write_text("int g(int); int f(int x) { return x > 1 ? g(x) + 1 : x; }")
    subprocess.run([gcc, "-O2", "-shared", "-fPIC", "f.c", "-o", "f.so"], cwd=folder, check=True)
    return (folder / "f.so").read_bytes()


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_library_with_any_bytes_changed_is_understood_or_one_clear_error(
    sample: bytes, data: st.DataObject
) -> None:
    changed = bytearray(sample)
    # Headers and tables come first and last; code in between breaks little.
    places = st.one_of(
        st.integers(0, 0x600), st.integers(len(sample) - 0x900, len(sample) - 1),
        st.integers(0, len(sample) - 1),
    )  # fmt: skip
    edits = st.lists(st.tuples(places, st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])), min_size=1)
    for place, value in data.draw(edits):
        changed[place] = value
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(changed)
        file.flush()
        with contextlib.suppress(ElfError):
            find_in(Path(file.name))


def test_headers_are_read_as_pyelftools_reads_them(sample: bytes, tmp_path: Path) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    path = tmp_path / "f.so"
    path.write_bytes(sample)
    with Image(str(path)) as image, path.open("rb") as stream:
        theirs = {
            each.name: (each["sh_addr"], each["sh_offset"], each["sh_size"])
            for each in elffile.ELFFile(stream).iter_sections()
            if each["sh_type"] != "SHT_NOBITS"
        }
        ours = {n: (s.address, s.offset, s.size) for n, s in image.sections.items()}
    assert ours == theirs


def test_a_pipe_or_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    for name in ("pipe.so", "none.so"):
        with pytest.raises(ElfError, match=name):
            Image(str(tmp_path / name))
