from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.readings import Process
from probes.libraries.limits import Limits
from probes.libraries.maps import FileKey, LibraryNames, identify, open_mapped
from probes.libraries.subscription import Changes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.probes.libraries.conftest import Machine

NAME = "libtorch_cpu.so"
TORCH = "/venv/torch/lib/libtorch_cpu.so"
LINKER = "/lib64/ld-linux-x86-64.so.2"
PLAIN = [(LINKER, 7), ("/lib/libc.so.6", 8)]
TRAINING = [*PLAIN, (TORCH, 9)]


def test_the_first_poll_finds_what_runs_already(machine: Machine) -> None:
    machine.runs(1, PLAIN)
    machine.runs(20, TRAINING)
    machine.runs(21, TRAINING)
    changes = machine.shared().subscribe(NAME).poll()
    assert changes.joined == [Process(20, 1), Process(21, 1)]
    assert [(each.path, each.key) for each in changes.appeared] == [(TORCH, FileKey("fe:00", 9))]
    assert machine.linkers == {FileKey("fe:00", 7)}


def test_afterwards_only_processes_that_the_hook_names_are_looked_at(machine: Machine) -> None:
    machine.runs(1, PLAIN)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.now += 60
    machine.runs(30, TRAINING)
    assert watch.poll().joined == []
    machine.named = {30, 31}
    assert watch.poll().joined == [Process(30, 1)]


def test_when_the_hook_lost_some_everything_is_scanned(machine: Machine) -> None:
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(30, TRAINING)
    machine.lost = True
    assert watch.poll().joined == [Process(30, 1)]


def test_without_a_hook_the_scan_repeats(machine: Machine) -> None:
    watch = machine.shared(hooked=False).subscribe(NAME)
    watch.poll()
    machine.runs(30, TRAINING)
    assert watch.poll().joined == []
    machine.now += 31
    assert watch.poll().joined == [Process(30, 1)]


def test_the_end_of_the_last_user_makes_the_file_vanish(machine: Machine) -> None:
    machine.runs(20, TRAINING)
    machine.runs(21, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.ends(20)
    changes = watch.poll()
    assert (changes.gone, changes.vanished) == ([Process(20, 1)], [])
    machine.ends(21)
    changes = watch.poll()
    assert (changes.gone, changes.vanished) == ([Process(21, 1)], [FileKey("fe:00", 9)])


def test_a_forked_child_that_no_linker_told_of_keeps_the_file(machine: Machine) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(25, TRAINING)
    machine.ends(20)
    changes = watch.poll()
    assert changes.gone == [Process(20, 1)]
    assert changes.joined == [Process(25, 1)]
    assert (changes.vanished, changes.appeared) == ([], [])


def test_a_pid_that_is_used_again_is_another_process(machine: Machine) -> None:
    machine.runs(20, TRAINING, start=1)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(20, TRAINING, start=5)
    machine.named = {20}
    changes = watch.poll()
    assert (changes.gone, changes.joined) == ([Process(20, 1)], [Process(20, 5)])


def test_a_process_that_runs_another_program_is_gone(machine: Machine) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(20, PLAIN)
    machine.named = {20}
    assert watch.poll().gone == [Process(20, 1)]


def test_a_process_with_an_unknown_linker_is_looked_at_until_its_libraries_are_loaded(
    machine: Machine,
) -> None:
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(40, [("/lib/ld-musl-x86_64.so.1", 77)])
    machine.named = {40}
    assert watch.poll().joined == []
    machine.runs(40, [("/lib/ld-musl-x86_64.so.1", 77), (TORCH, 9)])
    machine.now += 0.5
    assert watch.poll().joined == [Process(40, 1)]


def test_a_storm_of_starts_is_worked_off_a_bounded_number_at_a_time(machine: Machine) -> None:
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    pids = range(100, 100 + Limits().looks_per_poll + 5)
    for pid in pids:
        machine.runs(pid, [(TORCH, 9)])
    machine.named = set(pids)
    assert len(watch.poll().joined) == Limits().looks_per_poll
    assert len(watch.poll().joined) == 5


def test_linkers_that_nobody_maps_any_more_are_let_go_at_the_next_scan(machine: Machine) -> None:
    machine.runs(40, PLAIN)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.ends(40)
    machine.now += Limits().sweep_seconds + 1
    watch.poll()
    assert machine.linkers == set()


def test_names_with_spaces_and_deleted_files_are_read(machine: Machine) -> None:
    machine.runs(50, [("/a dir/libtorch_cpu.so (deleted)", 9), ("/x/mylibtorch_cpu.so", 10)])
    names = LibraryNames("libtorch_cpu.so")
    (mapped,) = names.mapped_by(50, machine.proc)
    assert (mapped.name, mapped.region) == ("libtorch_cpu.so (deleted)", "7f000000-7f00ffff")


def test_a_file_that_is_only_read_is_no_library_of_a_process() -> None:
    lines = [
        b"7f000000-7f010000 %b 00000000 fe:00 %d    /x/libcudart.so.12%b" % each
        for each in ((b"r--p", 7, b".debug"), (b"r--p", 8, b""), (b"r-xp", 8, b""))
    ]
    found = LibraryNames("libcudart.so").mapped_in(b"\n".join(lines), 50)
    assert [mapped.key.inode for mapped in found] == [8]


def test_this_very_process_is_identified_and_its_c_library_can_be_opened() -> None:
    process = identify(os.getpid())
    assert process is not None
    assert process.start_ticks > 0
    for mapped in LibraryNames("libc.so.6").mapped_by(os.getpid()):
        with open_mapped(mapped) as image:
            assert image.sections


def test_a_child_that_a_watched_process_forked_is_looked_at_though_no_linker_told_of_it(
    machine: Machine,
) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    assert machine.followed == {20}
    machine.runs(25, TRAINING)
    machine.forked = {25: 20}
    assert watch.poll().joined == [Process(25, 1)]
    assert machine.followed == {20, 25}


def test_a_new_thread_is_no_process(machine: Machine) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    # /proc/TID answers for a thread, too, though no listing shows it.
    machine.runs(21, TRAINING)
    (machine.proc / "20/task/21").mkdir(parents=True)
    machine.forked = {21: 20}
    assert watch.poll().joined == []
    assert watch.parent(21) is None


def test_a_child_that_is_gone_already_has_the_parent_that_forked_it(machine: Machine) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.forked = {25: 20, 26: 20, 27: 99}
    machine.ends(20)
    assert watch.poll().gone == [Process(20, 1)]
    assert watch.parent(25) == Process(20, 1)
    assert watch.parent(27) is None
    machine.executed = {26}
    watch.poll()
    assert watch.parent(26) is None


def test_a_process_whose_main_thread_ended_is_watched_as_long_as_another_runs(
    machine: Machine,
) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    maps = (machine.proc / "20/maps").read_text()
    (machine.proc / "20/maps").write_text("")
    (machine.proc / "20/task/21").mkdir(parents=True)
    (machine.proc / "20/task/21/maps").write_text(maps)
    fields = ["Z", *["0"] * 16, "2", "0", "1", "0"]
    (machine.proc / "20/stat").write_text("20 (python) " + " ".join(fields))
    machine.named = {20}
    assert watch.poll().gone == []
    fields[17] = "1"
    (machine.proc / "20/stat").write_text("20 (python) " + " ".join(fields))
    assert watch.poll().gone == [Process(20, 1)]


def test_an_upgraded_library_is_attached_beside_the_old_one_until_the_last_user_leaves(
    machine: Machine,
) -> None:
    machine.runs(20, [(TORCH, 9)])
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(20, [(TORCH + " (deleted)", 9)])
    machine.runs(21, [(TORCH, 10)])
    machine.named = {20, 21}
    changes = watch.poll()
    assert ([each.key.inode for each in changes.appeared], changes.vanished) == ([10], [])
    machine.ends(20)
    assert watch.poll().vanished == [FileKey("fe:00", 9)]


def test_one_file_under_two_device_numbers_is_two_files(machine: Machine) -> None:
    machine.runs(20, [(TORCH, 9)])
    machine.runs(21, [(TORCH, 9)])
    maps = machine.proc / "21/maps"
    maps.write_text(maps.read_text().replace("fe:00", "00:2f"))
    changes = machine.shared().subscribe(NAME).poll()
    assert [each.key.device for each in changes.appeared] == ["00:2f", "fe:00"]


def test_a_library_that_a_living_process_unloads_is_let_go(machine: Machine) -> None:
    machine.runs(20, [*TRAINING, ("/lib/libnccl.so.2", 30)])
    watch = machine.shared()
    torch, nccl = watch.subscribe(NAME), watch.subscribe("libnccl.so")
    torch.poll()
    nccl.poll()
    machine.runs(20, TRAINING)
    machine.named = {20}
    assert torch.poll() == Changes()
    changes = nccl.poll()
    assert (changes.gone, changes.vanished) == ([Process(20, 1)], [FileKey("fe:00", 30)])


def test_a_node_of_ten_thousand_processes_is_worked_off_in_bounded_polls(machine: Machine) -> None:
    machine.run_alike(range(1, 10_001), PLAIN)
    for pid in range(2000, 10_001, 2000):
        machine.ends(pid)
        machine.runs(pid, TRAINING)
    limits = Limits(sweep_burst=1000, sweep_rate=1000)
    shared = machine.shared(limits=limits)
    watch = shared.subscribe(NAME)
    joined: list[Process] = []
    polls = 0
    while len(joined) < 5:
        before = shared.looks
        joined += watch.poll().joined
        assert shared.looks - before <= limits.sweep_burst
        machine.now += 0.5
        polls += 1
    assert polls > 10
    machine.now += 100
    before = shared.looks
    for _ in range(20):
        machine.now += 0.5
        assert watch.poll() == Changes()
    assert shared.looks == before


def test_a_file_is_let_go_of_without_reading_the_maps_of_those_seen_before(
    machine: Machine,
) -> None:
    for pid in range(1, 101):
        machine.runs(pid, PLAIN)
    machine.runs(200, TRAINING)
    shared = machine.shared()
    watch = shared.subscribe(NAME)
    watch.poll()
    machine.now += 100
    machine.ends(200)
    machine.runs(201, PLAIN)
    before = shared.looks
    assert watch.poll().vanished
    assert shared.looks == before + 1


def test_a_storm_of_processes_that_are_gone_does_not_delay_those_that_live(
    machine: Machine,
) -> None:
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    machine.runs(9000, TRAINING)
    machine.named = {*range(1000, 3000), 9000}
    assert watch.poll().joined == [Process(9000, 1)]


def test_maps_that_are_cut_off_as_the_process_dies_are_read_as_far_as_they_go(
    machine: Machine,
) -> None:
    machine.runs(20, TRAINING)
    watch = machine.shared().subscribe(NAME)
    watch.poll()
    maps = machine.proc / "20/maps"
    maps.write_text(maps.read_text()[:150])
    machine.named = {20}
    changes = watch.poll()
    assert (changes.gone, changes.vanished) == ([Process(20, 1)], [FileKey("fe:00", 9)])
    machine.ends(20)
    assert watch.poll() == Changes()


def test_a_process_that_may_not_be_read_is_counted_as_long_as_it_is_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, proc: Path) -> bytes:
        raise PermissionError

    for pid in (20, 21):
        machine.runs(pid, TRAINING)
    shared = machine.shared()
    watch = shared.subscribe(NAME)
    monkeypatch.setattr("probes.libraries.watch.read_maps", refuse)
    assert watch.poll() == Changes()
    assert (watch.unreadable, shared.unreadable_pids) == (2, [20, 21])
    machine.ends(20)
    machine.lost = True
    watch.poll()
    assert watch.unreadable == 1
