"""Freed arrays are kept where the C library can be told to."""

from __future__ import annotations

import platform

from engine.allocation import keep_freed_memory


def test_glibc_keeps_freed_memory() -> None:
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
