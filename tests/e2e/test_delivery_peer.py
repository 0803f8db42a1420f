"""Our delivery beside Alertmanager itself, for a minute: what is told differs where we say so."""

from __future__ import annotations

import pytest

from bench.delivery.__main__ import report, run
from bench.delivery.sides import find_alertmanager
from bench.peers.packages import Failure

SECONDS = 60.0
SEED = 1
# A machine that stalls for half a second plays another timeline to one side than to the other.
ATTEMPTS = 3


def test_receivers_are_told_what_alertmanager_tells_them_and_differences_are_known() -> None:
    try:
        program = find_alertmanager()
    except Failure as failure:
        pytest.skip(str(failure))
    for _ in range(ATTEMPTS):
        found = run(program, SECONDS, SEED)
        if found.is_sound():
            break
    assert found.is_sound(), report(found)
    assert not found.failed(), report(found)
    for verdict in found.verdicts.values():
        assert min(verdict.messages) > 40, report(found)
