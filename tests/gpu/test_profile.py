from __future__ import annotations

import json

import pytest

from tests.gpu.profile import read_trace

# As torch.profiler exports them (PyTorch 2.x), cut to what is read.
TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1, "dur": 5},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 9, "dur": 1500},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "ts": 9, "dur": 500},
        {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "ts": 2, "dur": 4},
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 3, "dur": 70},
        {"ph": "X", "cat": "kernel", "name": "relu", "ts": 80, "dur": 2},
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pinned -> Device)",
            "args": {"bytes": 2097152},
        },
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "args": {"bytes": 4}},
        {"ph": "i", "name": "Record Window End"},
    ],
}  # fmt: skip


def test_a_trace_gives_calls_seconds_kernels_and_bytes_copied() -> None:
    found = read_trace(json.dumps(TRACE))
    assert found.calls == {
        "cudaLaunchKernel": 1,
        "cudaStreamSynchronize": 2,
        "cuLaunchKernelEx": 1,
    }
    assert found.seconds["cudaStreamSynchronize"] == pytest.approx(0.002)
    assert found.kernels == 2
    assert found.bytes == {"h2d": 2097152, "d2h": 4}


@pytest.mark.parametrize("text", ["", "[]", "{}", '"text"'])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Chrome trace"):
        read_trace(text)
