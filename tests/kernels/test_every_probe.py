"""No probe is left out of the matrix in silence."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from tests.kernels.staging import ROOT

# Reads NVML, the library of NVIDIA's driver: nothing of the kernel's own, and no GPU is emulated.
LEFT_OUT = {"gpu"}


@pytest.mark.parametrize(
    "probe", sorted({each.name for each in entry_points(group="stallwatch.probes")} - LEFT_OUT)
)
def test_every_probe_has_a_test_for_each_kernel(probe: str) -> None:
    files = [*ROOT.glob(f"tests/probes/{probe}/*.py"), *ROOT.glob(f"tests/e2e/test_{probe}.py")]
    assert any("mark.each_kernel" in each.read_text(encoding="utf-8") for each in files)
