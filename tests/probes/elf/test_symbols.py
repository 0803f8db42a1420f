from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    "empty": (b"", "not a readable ELF file"),
    "text": (b"#!/bin/sh\necho no\n" * 20, "not a readable ELF file"),
    "only magic": (b"\x7fELF\x02\x01\x01" + b"\0" * 9, "not a readable ELF file"),
    "32 bits": (b"\x7fELF\x01\x01\x01" + b"\0" * 9 + b"\x03\0\x03\0" + b"\0" * 60, "not"),
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
        find_functions(image, "f")


def test_a_library_cut_short_is_one_clear_error(
    compile_library: Callable[..., str], tmp_path: Path
) -> None:
    whole = Path(compile_library("int f(void){return 1;}")).read_bytes()
    short = tmp_path / "short.so"
    for length in range(0, len(whole), 499):
        short.write_bytes(whole[:length])
        with pytest.raises(ElfError):
            find_in(short)


def test_a_pipe_or_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    for name in ("pipe.so", "none.so"):
        with pytest.raises(ElfError, match=name):
            Image(str(tmp_path / name))
