"""bcc itself on the running kernel, with the stub headers and with the node's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.bpf import headers
from probes.bpf.bcc import NodeHeaders, StubHeaders
from probes.bpf.loader import ProgramType, load

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.root, pytest.mark.each_kernel]


def _builds(builder: StubHeaders | NodeHeaders) -> str:
    path = ROOT / "probes/libraries/program.bpf.c"
    loaded = load(path, {"on_link": ProgramType.UPROBE}, builders=[builder])
    step, left = loaded.step, loaded.left
    loaded.close()
    assert left == ()
    return step


def test_the_stub_headers_are_enough() -> None:
    assert _builds(StubHeaders()) == "stub headers"


def test_the_headers_of_the_node_do_as_well_where_there_are_any() -> None:
    if headers.of_the_node() is None:
        pytest.skip("no kernel headers are installed here")
    assert _builds(NodeHeaders()) == "node headers"
