from __future__ import annotations

import pytest

from tests.kernels.__main__ import _refuse_halves

MARKED = ["tests/e2e/test_tcp_retransmit.py", *(f"tests/probes/nccl/test_{n}.py" for n in "ab")]


def test_a_cell_of_the_table_is_not_written_from_half_of_a_probes_files() -> None:
    _refuse_halves(MARKED[:1], MARKED)
    _refuse_halves(MARKED[1:], MARKED)
    with pytest.raises(SystemExit, match=r"these too: tests/probes/nccl/test_b\.py"):
        _refuse_halves(MARKED[:2], MARKED)
