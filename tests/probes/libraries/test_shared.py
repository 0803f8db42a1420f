"""The agent's one watch, as long as somebody subscribes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from probes.bpf.errors import UnavailableError
from probes.libraries import shared


class Refused:
    def __init__(self) -> None:
        raise UnavailableError("no_root", "not root")


@pytest.fixture
def no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "LinkerHook", Refused)


def test_subscribers_share_one_watch_that_ends_with_the_last(no_hook: None) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    first, second = shared.subscribe("libc.so"), shared.subscribe("libm.so")
    watch = shared.current()
    assert watch is not None
    assert watch.subscribers == 2
    assert os.getpid() in [process.pid for process in first.poll().joined]
    first.close()
    assert shared.current() is watch
    second.close()
    second.close()
    assert shared.current() is None
    # Fewer: what other tests let go of in the background.
    assert not set(Path("/proc/self/fd").iterdir()) - before


def test_without_a_hook_libraries_are_found_by_scanning_and_the_reason_is_kept(
    no_hook: None,
) -> None:
    subscription = shared.subscribe("libc.so")
    try:
        assert subscription.hook_error is not None
        assert subscription.hook_error.reason == "no_root"
        assert subscription.poll().appeared
    finally:
        subscription.close()
