"""The order of the loader: who builds, who is left, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from probes.bpf.builder import Built, Source, build_first
from probes.bpf.errors import Reason, UnavailableError

SOURCE = Source(Path("some_probe/program.bpf.c"), {"on_hit": 5})


@dataclass
class Fails:
    name: str
    reason: Reason
    detail: str

    def build(self, source: Source) -> Built:
        raise UnavailableError(self.reason, f"{source.name} {self.detail}", "mend it")


@dataclass
class Prebuilt:
    """What a loader of precompiled objects would be: a file, and descriptors out of it."""

    name: str = "precompiled object"

    def build(self, source: Source) -> Built:
        return Built({name: os.open("/dev/null", os.O_RDONLY) for name in source.programs}, {})


def test_a_second_builder_takes_over_where_the_first_fails() -> None:
    first = Fails("stub headers", "compile", "does not compile")
    built, step, left = build_first(SOURCE, [first, Prebuilt()])
    assert step == "precompiled object"
    assert [str(each) for each in left] == [
        "stub headers: some_probe/program.bpf.c does not compile"
    ]
    assert list(built.program_fds) == ["on_hit"]
    built.close()


def test_each_step_says_why_it_was_left_and_the_poller_comes_last() -> None:
    steps = [
        Fails("stub headers", "compile", "does not compile: unknown type"),
        Fails("node headers", "no_headers", "has none"),
    ]
    with pytest.raises(UnavailableError) as caught:
        build_first(SOURCE, steps)
    assert caught.value.reason == "compile"
    status = caught.value.polled("tcp", "/proc/net/snmp")
    assert (status.state, status.reason, status.mend) == ("degraded", "poller", "mend it")
    assert status.detail == (
        "stub headers: some_probe/program.bpf.c does not compile: unknown type;"
        " node headers: some_probe/program.bpf.c has none; poller: /proc/net/snmp"
    )


def test_what_all_steps_lack_is_said_once() -> None:
    steps = [Fails("stub headers", "no_bcc", "is without"), Fails("node", "no_bcc", "is too")]
    with pytest.raises(UnavailableError) as caught:
        build_first(SOURCE, steps)
    assert (caught.value.reason, caught.value.detail) == (
        "no_bcc",
        "some_probe/program.bpf.c is without",
    )


def test_what_no_builder_can_help_ends_the_search() -> None:
    refused = Fails("stub headers", "missing_capability", "is refused")
    with pytest.raises(UnavailableError) as caught:
        build_first(SOURCE, [refused, Prebuilt()])
    assert caught.value.reason == "missing_capability"
