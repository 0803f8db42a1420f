from __future__ import annotations

from engine.readings import Process
from probes.libraries.subscription import Changes
from probes.process.known import REMEMBERED_SECONDS, KnownProcesses


class Libraries:
    def __init__(self) -> None:
        self.changes = Changes()
        self.closed = False

    def __call__(self, *_: str) -> Libraries:
        return self

    def poll(self) -> Changes:
        changes, self.changes = self.changes, Changes()
        return changes

    def close(self) -> None:
        self.closed = True


def test_a_dead_process_is_remembered_for_a_minute_beside_the_one_that_took_its_pid() -> None:
    libraries, now = Libraries(), [0.0]
    known = KnownProcesses(libraries, lambda: now[0])  # type: ignore[arg-type]
    first, second = Process(7, 100), Process(7, 200)
    libraries.changes = Changes(joined=[first])
    known.poll()
    assert known.candidates(7) == [first]
    libraries.changes = Changes(joined=[second], gone=[first])
    known.poll()
    assert known.candidates(7) == [second, first]
    now[0] = REMEMBERED_SECONDS + 1
    known.poll()
    assert known.candidates(7) == [second]
    assert known.candidates(8) == []
    known.close()
    assert libraries.closed
