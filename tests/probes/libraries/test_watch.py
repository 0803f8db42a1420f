from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine.readings import Process
from probes.libraries.maps import FileKey, LibraryNames, identify, open_mapped
from probes.libraries.watch import Limits

if TYPE_CHECKING:
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


def test_this_very_process_is_identified_and_its_c_library_can_be_opened() -> None:
    process = identify(os.getpid())
    assert process is not None
    assert process.start_ticks > 0
    for mapped in LibraryNames("libc.so.6").mapped_by(os.getpid()):
        with open_mapped(mapped) as image:
            assert image.sections
