"""Files of what a slow dispatcher says: they pass, and fail when one message is changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from engine.ruletest.running import RunOptions
from notifiers.deliverytest.running import run_file
from tests.notifiers.forecast.slow_week import CONFIG, Episode, Quiet, SlowWeek

if TYPE_CHECKING:
    from engine.ruletest.verdict import Failure
    from tests.notifiers.forecast.slow_week import Key

# Monday, 2026-11-02 20:00 UTC: from 22:00 on the network team's routes are mute.
START, SECONDS = 1_793_649_600, 12 * 3600
LABELS = ("alertname", "node", "severity", "team")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stallwatch.yaml").write_text(CONFIG)


def drawn(chance: random.Random) -> dict[str, Any]:
    """A delivery test with all the messages that the slow dispatcher says there must be."""
    episodes = []
    for name in "ABC":
        for node in ("n1", "n2", "n3"):
            severity, team = chance.choice(["critical", "warning"]), chance.choice(["net", "ml"])
            now = START
            while (fires := now + 30 * chance.randint(1, 400)) < START + SECONDS:
                now = fires + 30 * chance.choice([1, 7, 40, 700])
                episodes.append(Episode(name, node, severity, team, fires, now))
    begin = START + 30 * chance.randint(0, 700)
    quiet = Quiet(chance.choice("ABC"), begin, begin + 7200)
    slow = SlowWeek(episodes, [quiet])
    slow.run(START, START + SECONDS)
    return {
        "start_timestamp": START,
        "until": f"{SECONDS}s",
        "alerts": [
            {
                "labels": labelled(one.key),
                "starts": f"{one.fires - START}s",
                "ends": f"{one.over - START}s",
            }
            for one in episodes
        ],
        "silences": [
            {
                "matchers": f"alertname={quiet.name}",
                "starts": f"{quiet.starts - START}s",
                "ends": f"{quiet.ends - START}s",
            }
        ],
        "messages": [
            {
                "receiver": receiver,
                "at": f"{now - START}s",
                "firing": [labelled(key) for key in firing],
                "resolved": [labelled(key) for key in ended],
            }
            for now, receiver, firing, ended in slow.messages
        ],
    }


def labelled(key: Key) -> dict[str, str]:
    return dict(zip(LABELS, key, strict=True))


def failures(test: dict[str, Any]) -> tuple[Failure, ...]:
    Path("t.yaml").write_text(
        yaml.safe_dump({"config": "stallwatch.yaml", "delivery_tests": [test]}, sort_keys=False)
    )
    verdict = run_file("t.yaml", RunOptions())
    assert not verdict.problems
    return verdict.failures


@pytest.mark.parametrize("seed", range(8))
def test_what_the_slow_one_says_passes_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    test = drawn(chance)
    assert len(test["messages"]) > 20
    chance.shuffle(test["messages"])
    for message in test["messages"]:
        chance.shuffle(message["firing"])
    assert failures(test) == ()


@pytest.mark.parametrize("seed", range(8))
def test_one_message_that_is_changed_left_out_or_made_up_is_found(seed: int) -> None:
    chance = random.Random(seed)
    test = drawn(chance)
    at = chance.randrange(len(test["messages"]))
    gone = test["messages"].pop(at)
    (found,) = failures(test)
    assert found.subject == f"messages to {gone['receiver']}"
    assert found.message == "1 was not expected"
    late = {**gone, "at": f"{int(gone['at'].removesuffix('s')) + 1}s"}
    (found,) = failures({**test, "messages": [*test["messages"], late]})
    assert found.message.startswith("it came at ")
    twice = [*test["messages"], gone, gone]
    (found,) = failures({**test, "messages": twice})
    assert found.message == "it did not come"
    more = {**gone, "firing": [*gone["firing"], {"alertname": "none"}]}
    (found,) = failures({**test, "messages": [*test["messages"], more]})
    assert found.message == "it is another one"
    assert found.differences[0].fields[0].expected == '{alertname="none"}'
