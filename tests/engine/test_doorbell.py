from __future__ import annotations

import os
import threading

from engine.doorbell import Doorbell


def test_nobody_rings_and_the_wait_is_over_by_itself() -> None:
    assert Doorbell().wait(0.01) is False


def test_ringing_ends_the_present_wait_or_the_next_one() -> None:
    bell = Doorbell()
    bell.ring()
    assert bell.wait(60) is True
    threading.Timer(0.05, bell.ring).start()
    assert bell.wait(60) is True
    assert bell.wait(0) is False


def test_a_descriptor_rings_when_something_arrives_and_not_for_what_lies_there() -> None:
    bell = Doorbell()
    ours, theirs = os.pipe()
    bell.add(ours)
    os.write(theirs, b"x")
    assert bell.wait(60) is True
    assert bell.wait(0) is False  # it is still unread
    os.write(theirs, b"y")
    assert bell.wait(60) is True
    bell.remove(ours)
    bell.remove(ours)
    os.write(theirs, b"z")
    assert bell.wait(0) is False
    assert bell.rung_total == 2
    os.close(ours)
    os.close(theirs)
