"""Real descriptors of a real process; the device node is /dev/null's number under another name."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from engine.aggregate.procfs import Procfs
from probes.rdma.holders import Holders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.readings import Process
    from tests.probes.rdma.conftest import Tree


def _me() -> Process:
    process = Procfs().identify(os.getpid())
    assert process is not None
    return process


def test_who_has_the_node_open_holds_the_device_until_it_closes_it(
    tree: Tree, node: Callable[[str], Path]
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    holders = Holders(tree.root)
    assert holders.look() == {}
    with node("uverbs0").open("rb"):
        assert holders.look() == {"mlx5_0": {_me()}}
        assert holders.look() == {"mlx5_0": {_me()}}
    assert holders.look() == {}


def test_a_file_of_that_name_that_is_no_such_device_is_not_taken_for_one(
    tree: Tree, tmp_path: Path
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    with (tmp_path / "uverbs0").open("wb"):
        assert Holders(tree.root).look() == {}


def test_a_forked_child_holds_it_too_and_a_dead_process_does_not(
    tree: Tree, node: Callable[[str], Path]
) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    path = node("uverbs0")
    code = (
        "import os,sys;f=open(sys.argv[1]);p=os.fork();p and print(p,flush=True);sys.stdin.read()"
    )
    holders = Holders(tree.root)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        held = holders.look()["mlx5_0"]
        assert {process.pid for process in held} == {parent.pid, child}
        parent.communicate("")
    assert holders.look() == {}


def test_a_bounded_look_goes_on_where_it_ended(tree: Tree, node: Callable[[str], Path]) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    holders = Holders(tree.root, links_limit=1)
    with node("uverbs0").open("rb"):
        looks = len(Procfs().pids()) + 50
        found = next((n for n in range(looks) if holders.look()), None)
    assert found is not None
    assert found > 0  # one process a look: this one is not the first of the machine


def test_a_device_that_goes_has_no_holder(tree: Tree, node: Callable[[str], Path]) -> None:
    tree.verbs("uverbs0", "mlx5_0")
    holders = Holders(tree.root)
    with node("uverbs0").open("rb"):
        assert holders.look()
        for name in ("dev", "ibdev"):
            (tree.root / "infiniband_verbs/uverbs0" / name).unlink()
        assert holders.look() == {}
