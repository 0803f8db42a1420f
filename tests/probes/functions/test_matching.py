"""Which symbols a pattern means, on a compiled file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from probes.elf.image import Image
from probes.functions import matching
from probes.functions.function import Function
from probes.functions.matching import VaguePatternError, match, without_parameters
from probes.functions.places import find_places
from probes.functions.search import facts_of, search

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("symbols.cc")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("symbols") / "libsymbols.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture
def image(library: Path) -> Iterator[Image]:
    with Image(str(library)) as image:
        yield image


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ncclAllGather", ["ncclAllGather"]),
        ("ncclAllReduce", ["ncclAllReduce"]),
        ("pncclAllReduce", ["pncclAllReduce"]),
        ("AllReduce", []),
        ("ncclAll*", ["ncclAllGather", "ncclAllReduce"]),
        ("*ncclAll*", ["ncclAllGather", "ncclAllReduce"]),  # one of two names of an address
        ("nccl[AS]*[dr]", ["ncclAllGather", "ncclSend"]),
        ("comm::Reducer::finalize", ["comm::Reducer::finalize"] * 2),
        ("comm::Reducer::*", ["comm::Reducer::finalize"] * 2 + ["comm::Reducer::prepare"]),
        ("*::Reducer::pre*", ["comm::Reducer::prepare"]),
        ("comm::Reducer::final", []),
        ("plain", ["plain"]),
    ],
)
def test_a_pattern_means_these_functions(image: Image, pattern: str, names: list[str]) -> None:
    found = [each for each in match(image, pattern) if each.kind == "function"]
    assert sorted(without_parameters(each.symbol.demangled) for each in found) == names


@pytest.mark.parametrize(
    ("pattern", "kind"), [("nccl_table", "data"), ("chosen", "ifunc"), ("puts", "imported")]
)
def test_what_is_no_function_of_the_file_is_found_and_told_apart(
    image: Image, pattern: str, kind: str
) -> None:
    assert [each.kind for each in match(image, pattern)] == [kind]


@pytest.mark.parametrize(
    ("symbols", "reason", "words"),
    [
        (("nothing_here",), "symbol_missing", "it has no nothing_here"),
        (("nccl_table",), "not_a_function", "nccl_table is data"),
        (("chosen",), "not_a_function", "only its chooser has this name"),
        (("puts",), "symbol_missing", "another library defines"),
        (("nccl*",), "too_many_functions", "means 3 functions, more than 2"),
    ],
)
def test_a_function_that_cannot_be_probed_has_a_reason(
    image: Image, symbols: tuple[str, ...], reason: str, words: str
) -> None:
    places = find_places(image, Function("f", "lib", symbols, "enter", "leave", most=2))
    assert not places.symbols
    assert places.reason == reason
    assert words in places.detail
    assert not find_places(image, Function("f", "lib", ("no",), "enter", optional=True)).reason


def test_a_glob_that_might_mean_thousands_of_names_is_refused(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "MAX_DEMANGLED", 2)
    with pytest.raises(VaguePatternError, match=r"may mean any of \d+ symbols"):
        match(image, "comm::*")


def test_two_patterns_for_one_address_are_one_place(image: Image) -> None:
    function = Function("f", "lib", ("ncclAllReduce", "pncclAllReduce", "ncclAll*"), "e", "l")
    assert len(find_places(image, function).symbols) == 2


@pytest.mark.parametrize(
    ("demangled", "name"),
    [
        ("main", "main"),
        ("a::b(int, (c)2)", "a::b"),
        ("a::b(int) const", "a::b"),
        ("f(int)::{lambda(int)#1}::operator()(int) const", "f(int)::{lambda(int)#1}::operator()"),
        ("a::b[abi:cxx11](int)", "a::b[abi:cxx11]"),
        ("f(int) [clone .isra.0]", "f"),
    ],
)  # fmt: skip
def test_parameters_are_taken_off_a_demangled_name(demangled: str, name: str) -> None:
    assert without_parameters(demangled) == name


def test_a_search_shows_names_exits_and_aliases(image: Image) -> None:
    found = search(image, "AllReduce")
    (row,) = found.rows
    assert (row.name, row.aliases, row.kind) == ("ncclAllReduce", ("pncclAllReduce",), "function")
    assert row.exits == 1
    assert row.offset > 0
    assert {each.demangled for each in search(image, "Reducer::final").rows} == {
        "comm::Reducer::finalize(int)",
        "comm::Reducer::finalize(std::vector<int, std::allocator<int> > const&) const",
    }
    assert search(image, "*", limit=2).total > 10
    assert len(search(image, "*", limit=2).rows) == 2


def test_a_wrong_pattern_gets_the_nearest_names(image: Image) -> None:
    assert search(image, "ncclAllRedcue").suggestions[0] in {"ncclAllReduce", "pncclAllReduce"}
    assert search(image, "comm::Reducer::finalise").suggestions[0] == "comm::Reducer::finalize"


def test_stripped_and_static_files_say_what_is_left(
    library: Path, image: Image, tmp_path: Path
) -> None:
    assert facts_of(image).note == ""
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, library], check=True)
    with Image(str(stripped)) as file:
        assert facts_of(file).note == "stripped: only exported functions have names"
        assert search(file, "AllReduce").total == 1
    program = tmp_path / "program.c"
    program.write_text("int visible(int a) { return a; } int main(void) { return visible(0); }")
    static = tmp_path / "static"
    built = subprocess.run(["gcc", "-static", "-o", static, program], check=False)
    if built.returncode:
        pytest.skip("no static libc to link with")
    with Image(str(static)) as file:
        assert facts_of(file).note.startswith("statically linked: ")
        assert search(file, "visible").total >= 1
    subprocess.run(["strip", static], check=True)
    with Image(str(static)) as file:
        assert "no function in it has a name" in facts_of(file).note
