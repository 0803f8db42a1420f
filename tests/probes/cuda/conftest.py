"""The compiled stand-in for CUDA and jobs that use it. NVIDIA's runtime is tried in tests/e2e."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.probes.cuda.building import build
from tests.probes.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job; its libcudart.so.12 and libcuda.so.1 lie beside it."""
    return build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def start(stand_in: Path) -> Iterator[Callable[..., Job]]:
    """Start jobs; they are killed afterwards."""
    jobs: list[Job] = []

    def run(*prefix: str, path: Path = stand_in) -> Job:
        jobs.append(Job(path, *prefix))
        return jobs[-1]

    yield run
    for job in jobs:
        job.end()
