"""The wheel holds the four packages, all that they read at run time, and nothing beside them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("engine", "notifiers", "probes", "rules")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Names of the files in the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("stallwatch-*.whl")
    with zipfile.ZipFile(built) as archive:
        return frozenset(archive.namelist())


def test_its_top_level_names_are_the_four_packages(wheel: frozenset[str]) -> None:
    top = {name.partition("/")[0] for name in wheel}
    information = {name for name in top if name.startswith("stallwatch-")}
    assert top - information == set(PACKAGES)
    assert [name.endswith(".dist-info") for name in information] == [True]


def test_every_file_of_the_packages_is_in_it(wheel: frozenset[str]) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git, to know which files are the project's")
    listed = subprocess.run(
        ["git", "ls-files", "-z", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip(f"not a git checkout: {listed.stderr}")
    assert set(filter(None, listed.stdout.split("\0"))) <= wheel


@pytest.mark.parametrize(
    "pattern",
    [
        "rules/packs/*.yaml",
        "probes/*/program.bpf.c",
        "probes/*/*.h",
        "probes/bpf/kernel/**/*.h",
        "probes/bpf/words/*.h",
        "probes/demo/recording/**/*.*",
    ],
)
def test_what_is_read_at_run_time_is_in_it(wheel: frozenset[str], pattern: str) -> None:
    needed = {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)}
    assert needed
    assert needed <= wheel
