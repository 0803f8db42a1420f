from __future__ import annotations

from dataclasses import replace

import pytest

from probes.bpf.capabilities import (
    Privileges,
    parse_capabilities,
    parse_lockdown,
    parse_status,
    require_bpf,
)
from probes.bpf.errors import UnavailableError

ROOT = Privileges(
    uid=0,
    effective=frozenset({"bpf", "perfmon", "sys_admin"}),
    initial_user_namespace=True,
    seccomp=False,
    lockdown="none",
    kernel=(6, 12),
)


def test_a_mask_becomes_names() -> None:
    assert parse_capabilities("000000c000000000") == {"perfmon", "bpf"}
    assert parse_capabilities("0000000000200000") == {"sys_admin"}
    assert parse_capabilities("0") == frozenset()


def test_status_and_lockdown_are_read_as_the_kernel_prints_them() -> None:
    assert parse_status("Name:\tx y\nCapEff:\t0000000000200000\n")["CapEff"] == "0000000000200000"
    assert parse_lockdown("none [integrity] confidentiality\n") == "integrity"
    assert parse_lockdown("") == "unknown"


@pytest.mark.parametrize(
    ("effective", "kernel", "missing"),
    [
        ({"sys_admin"}, (5, 4), ()),
        ({"sys_admin"}, (6, 12), ()),
        ({"bpf", "perfmon"}, (6, 12), ()),
        ({"bpf", "perfmon"}, (5, 4), ("sys_admin",)),
        ({"bpf"}, (6, 12), ("perfmon",)),
        (set(), (6, 12), ("bpf", "perfmon")),
    ],
)
def test_what_tracepoints_need_depends_on_the_kernel(
    effective: set[str], kernel: tuple[int, int], missing: tuple[str, ...]
) -> None:
    privileges = replace(ROOT, effective=frozenset(effective), kernel=kernel)
    assert privileges.missing_for_tracepoints() == missing


@pytest.mark.parametrize(
    ("privileges", "reason", "words"),
    [
        (replace(ROOT, uid=1000, effective=frozenset()), "no_root", "sudo"),
        (
            replace(ROOT, effective=frozenset({"bpf"})),
            "missing_capability",
            "--cap-add PERFMON",
        ),
        (replace(ROOT, initial_user_namespace=False), "missing_capability", "userns"),
        (replace(ROOT, lockdown="confidentiality"), "lockdown", "integrity"),
    ],
)
def test_each_refusal_has_its_word_and_its_mend(
    privileges: Privileges, reason: str, words: str
) -> None:
    with pytest.raises(UnavailableError) as caught:
        require_bpf(privileges)
    assert caught.value.reason == reason
    assert words in caught.value.mend
    assert caught.value.status("x").state == "off"


def test_root_on_the_host_is_refused_nothing() -> None:
    require_bpf(ROOT)
