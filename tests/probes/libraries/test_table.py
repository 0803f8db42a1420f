from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.readings import Process
from probes.libraries.maps import FileKey
from probes.libraries.table import Change, UserTable

A, B = FileKey("08:01", 1), FileKey("08:01", 2)
FIRST, SECOND = Process(10, 1), Process(11, 1)


def test_a_file_appears_with_its_first_user_and_vanishes_with_its_last() -> None:
    table = UserTable()
    assert table.update(FIRST, [A, B]) == Change(appeared=(A, B))
    assert table.update(SECOND, [A]) == Change()
    assert table.remove(FIRST) == Change(vanished=(B,))
    assert table.remove(SECOND) == Change(vanished=(A,))


def test_a_process_that_runs_exec_leaves_the_files_of_its_old_program() -> None:
    table = UserTable()
    table.update(FIRST, [A])
    assert table.update(FIRST, [B]) == Change(appeared=(B,), vanished=(A,))
    assert table.processes == (FIRST,)


def test_removing_an_unknown_process_changes_nothing() -> None:
    assert UserTable().remove(FIRST) == Change()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 4), st.sets(st.integers(1, 3))), max_size=20))
def test_the_changes_add_up_to_the_files_that_have_users(steps: list[tuple[int, set[int]]]) -> None:
    table, attached, holds = UserTable(), set[FileKey](), dict[int, set[int]]()
    for pid, inodes in steps:
        change = table.update(Process(pid, 0), {FileKey("0:1", inode) for inode in inodes})
        holds[pid] = inodes
        assert not attached & set(change.appeared)
        attached = (attached | set(change.appeared)) - set(change.vanished)
        assert {key.inode for key in attached} == set().union(*holds.values())
