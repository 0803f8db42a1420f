from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from probes.rdma.sysfs import exists, look

if TYPE_CHECKING:
    from pathlib import Path

    from tests.probes.rdma.conftest import Tree


def _values(tree: Tree) -> dict[tuple[str, str, str], int]:
    return {(s.device, s.port, s.counter.cause): s.value for s in look(tree.root).samples}


def test_each_file_stands_for_itself(tree: Tree) -> None:
    tree.port("mlx5_0", out_of_sequence=3, np_cnp_sent="N/A (no PMA)", rx_write_requests=7)
    tree.port("mlx5_0", packet_seq_err="many", link_downed=1, port_xmit_wait=-4)
    assert _values(tree) == {
        ("mlx5_0", "1", "out_of_sequence"): 3,
        ("mlx5_0", "1", "link_downed"): 1,
    }
    assert look(tree.root).unreadable == [
        "mlx5_0/1/np_cnp_sent",
        "mlx5_0/1/packet_seq_err",
        "mlx5_0/1/port_xmit_wait",
    ]


def test_a_file_that_the_driver_refuses_is_left_out_and_named(tree: Tree) -> None:
    tree.port("mlx5_0", out_of_sequence=3)
    # Reading a folder fails as a driver's EINVAL does, for root too.
    (tree.root / "infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent").mkdir()
    assert _values(tree) == {("mlx5_0", "1", "out_of_sequence"): 3}
    assert look(tree.root).unreadable == ["mlx5_0/1/np_cnp_sent"]


def test_a_device_links_into_the_tree_of_devices_as_in_sysfs(tree: Tree, tmp_path: Path) -> None:
    tree.port("real", local_ack_timeout_err=2)
    (tree.root / "infiniband/real").rename(tmp_path / "pci")
    (tree.root / "infiniband/mlx5_1").symlink_to(tmp_path / "pci")
    assert _values(tree) == {("mlx5_1", "1", "timeout"): 2}


def test_what_ports_told_is_not_told_again_by_the_device(tree: Tree) -> None:
    tree.port("efa_0", retrans_pkts=5)
    tree.file("efa_0", "hw_counters/retrans_pkts", 5)
    tree.file("efa_0", "hw_counters/rx_drops", 9)
    assert _values(tree) == {("efa_0", "1", "packets"): 5, ("efa_0", "", "receive_drops"): 9}


def test_one_cause_under_two_names_counts_once(tree: Tree) -> None:
    tree.port("bnxt_re0", missing_resp=4, missin_resp=4)
    assert _values(tree) == {("bnxt_re0", "1", "implied_nak"): 4}


def test_a_counter_at_its_ceiling_is_named(tree: Tree) -> None:
    tree.port("mlx5_0", port_xmit_wait=4_294_967_295, symbol_error=65_534)
    assert look(tree.root).saturated == ["mlx5_0/1/port_xmit_wait"]


def test_without_rdma_there_is_nothing_to_read(tree: Tree) -> None:
    assert exists(tree.root)
    shutil.rmtree(tree.root / "infiniband")
    assert not exists(tree.root)
    assert look(tree.root).samples == []
