from __future__ import annotations

import os

from engine.aggregate.procfs import Procfs
from probes.bpf import tracefs


def test_only_entries_of_dead_agents_are_stale() -> None:
    mine = f"{os.getpid()}_{tracefs.own_start_ticks()}"
    text = (
        f"p:stallwatch/u_{mine}_0 /usr/lib/libc.so:0x10\n"
        f"p:stallwatch/u_{os.getpid()}_1_4 /usr/lib/libc.so:0x10\n"  # same pid, earlier process
        "p:uprobes/p_usr_bin_x_0x1 /usr/bin/x:0x1\n"  # another tool's
    )
    assert tracefs.stale_events(text) == [f"stallwatch/u_{os.getpid()}_1_4"]


def test_a_process_that_does_not_exist_has_no_start_time() -> None:
    assert Procfs().identify(2**22 + 1) is None
