"""Several probes, one watch: each sees its own libraries, each change once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.readings import Process
from probes.libraries.maps import FileKey, LibraryNames
from probes.libraries.subscription import Changes

if TYPE_CHECKING:
    from probes.libraries.subscription import Subscription
    from tests.probes.libraries.conftest import Machine

LINKER = ("/lib64/ld-linux-x86-64.so.2", 7)
TORCH = ("/venv/lib/libtorch_cpu.so", 9)
NCCL = ("/venv/lib/libnccl.so.2", 10)
CUDART = ("/venv/lib/libcudart-9f.so.12", 11)


def polled_twice(machine: Machine) -> tuple[Subscription, Subscription]:
    """Two who asked for the same library, and have heard of all that is there."""
    watch = machine.shared()
    busy, lazy = watch.subscribe("libtorch_cpu.so"), watch.subscribe("libtorch_cpu.so")
    busy.poll()
    lazy.poll()
    return busy, lazy


def test_each_subscriber_sees_its_own_libraries_and_every_change_once(machine: Machine) -> None:
    machine.runs(20, [LINKER, TORCH, NCCL])
    machine.runs(21, [LINKER, NCCL])
    watch = machine.shared()
    torch, nccl = watch.subscribe("libtorch_cpu.so"), watch.subscribe("libnccl.so")
    first, second = torch.poll(), nccl.poll()
    assert (first.joined, second.joined) == ([Process(20, 1)], [Process(20, 1), Process(21, 1)])
    assert [each.key.inode for each in first.appeared] == [9]
    assert [each.key.inode for each in second.appeared] == [10]
    assert (torch.poll(), nccl.poll()) == (Changes(), Changes())
    machine.ends(20)
    assert torch.poll().vanished == [FileKey("fe:00", 9)]
    assert nccl.poll() == Changes(gone=[Process(20, 1)])
    assert nccl.processes == (Process(21, 1),)
    assert nccl.files(Process(21, 1)) == {FileKey("fe:00", 10)}


def test_one_round_of_polls_is_one_look_at_the_machine(machine: Machine) -> None:
    watch = machine.shared()
    subscribers = [watch.subscribe(f"lib{each}.so") for each in "abcdef"]
    for _ in range(3):
        for each in subscribers:
            each.poll()
    assert machine.drained == 3


def test_a_subscriber_that_polls_twice_in_a_round_is_served_the_newest(machine: Machine) -> None:
    watch = machine.shared()
    first, second = watch.subscribe("libtorch_cpu.so"), watch.subscribe("libtorch_cpu.so")
    first.poll()
    second.poll()
    machine.runs(20, [LINKER, TORCH])
    machine.named = {20}
    assert second.poll().joined == [Process(20, 1)]
    assert first.poll().joined == [Process(20, 1)]


def test_a_late_subscriber_is_told_of_what_runs_already(machine: Machine) -> None:
    machine.runs(20, [LINKER, TORCH, NCCL])
    watch = machine.shared()
    torch = watch.subscribe("libtorch_cpu.so")
    torch.poll()
    machine.now += 100
    for name, inode in (("libnccl.so", 10), ("libtorch_cpu.so", 9)):
        late = watch.subscribe(name)
        changes = late.poll()
        assert changes.joined == [Process(20, 1)]
        assert [each.key.inode for each in changes.appeared] == [inode]
    assert torch.poll() == Changes()


def test_what_came_and_went_between_two_polls_of_a_subscriber_is_not_told(
    machine: Machine,
) -> None:
    busy, lazy = polled_twice(machine)
    machine.runs(20, [LINKER, TORCH])
    machine.named = {20}
    assert busy.poll().joined
    machine.ends(20)
    assert busy.poll().gone
    assert lazy.poll() == Changes()


def test_a_process_that_runs_itself_again_between_two_polls_was_there_all_the_time(
    machine: Machine,
) -> None:
    machine.runs(20, [LINKER, TORCH])
    busy, lazy = polled_twice(machine)
    for libraries in ([LINKER], [LINKER, TORCH]):
        machine.runs(20, libraries)
        machine.named = {20}
        busy.poll()
    assert lazy.poll() == Changes()


def test_a_closed_subscription_costs_the_others_nothing(machine: Machine) -> None:
    machine.runs(20, [LINKER, TORCH, NCCL])
    watch = machine.shared()
    torch, nccl = watch.subscribe("libtorch_cpu.so"), watch.subscribe("libnccl.so")
    torch.poll()
    nccl.poll()
    torch.close()
    torch.close()
    assert watch.subscribers == 1
    assert nccl.poll() == Changes()
    machine.ends(20)
    assert nccl.poll().vanished == [FileKey("fe:00", 10)]


def test_the_file_that_appears_is_shown_as_a_living_process_maps_it(machine: Machine) -> None:
    busy, lazy = polled_twice(machine)
    machine.runs(20, [LINKER, TORCH])
    machine.runs(21, [LINKER, TORCH])
    machine.named = {20, 21}
    busy.poll()
    machine.ends(20)
    busy.poll()
    (mapped,) = lazy.poll().appeared
    assert mapped.pid == 21


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("libcudart.so", "libcudart.so.12", True),
        ("libcudart.so", "libcudart-9f.so.12", False),
        ("libcudart.so", "mylibcudart.so", False),
        ("libcudart*.so*", "libcudart-9f.so.12", True),
        ("libcudart*.so*", "libcudart-9f.so.12 (deleted)", True),
        ("lib?.so", "liba.so (deleted)", True),
        ("lib?.so", "libab.so", False),
        ("lib[ab].so", "libb.so", True),
        ("lib[!ab].so", "libb.so", False),
        ("lib[ab.so", "lib[ab.so", True),
        ("*++*.so", "libstdc++.so", True),
        ("train", "train_gpt", True),
    ],
)
def test_a_name_is_a_beginning_or_a_glob(pattern: str, name: str, matches: bool) -> None:
    assert LibraryNames(pattern).match(name) == matches


def test_a_glob_finds_its_files_in_maps(machine: Machine) -> None:
    machine.runs(20, [LINKER, CUDART, ("/train (deleted)", 12)])
    subscription = machine.shared().subscribe("libcudart*.so.*", "tr[a]in")
    assert [each.path for each in subscription.poll().appeared] == [
        CUDART[0],
        "/train (deleted)",
    ]


def test_without_a_name_nothing_matches(machine: Machine) -> None:
    machine.runs(20, [LINKER, TORCH])
    assert machine.shared().subscribe().poll() == Changes()


def test_a_file_that_appears_is_shown_as_a_user_maps_it_that_has_not_just_ended(
    machine: Machine,
) -> None:
    busy, lazy = polled_twice(machine)
    for pid in (20, 21):
        machine.runs(pid, [LINKER, TORCH])
    machine.named = {20, 21}
    busy.poll()
    machine.ends(20)  # between the look and the poll that tells of it
    (mapped,) = lazy.poll().appeared
    assert mapped.pid == 21
