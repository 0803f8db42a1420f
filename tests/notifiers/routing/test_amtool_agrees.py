"""`stallwatch notify route` beside Alertmanager's amtool, on trees that both read."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from engine.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    shutil.which("amtool") is None, reason="needs amtool (prometheus-alertmanager)"
)
RECEIVERS = ["r0", "r1", "r2", "r3"]
VALUES = {"team": ["net", "ml", ""], "tier": ["1", "2", ""], "node": ["n1", "n 2", "n3"]}


def drawn_route(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    route: dict[str, Any] = {}
    if depth == 0 or chance.random() < 0.7:
        route["receiver"] = chance.choice(RECEIVERS)
    if depth:
        route["matchers"] = [drawn_matcher(chance) for _ in range(chance.randint(1, 2))]
        route["continue"] = chance.random() < 0.4
    if depth < 3 and chance.random() < 0.8 - depth / 5:
        route["routes"] = [drawn_route(chance, depth + 1) for _ in range(chance.randint(1, 3))]
    return route


def drawn_matcher(chance: random.Random) -> str:
    label = chance.choice(list(VALUES))
    op = chance.choice(["=", "!=", "=~", "!~"])
    values = chance.sample(VALUES[label], k=2 if "~" in op else 1)
    return f'{label}{op}"{"|".join(values)}"'


def drawn_labels(chance: random.Random) -> dict[str, str]:
    names = chance.sample(list(VALUES), k=chance.randint(1, 3))
    return {name: chance.choice(VALUES[name]) for name in names}


def amtool(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["amtool", "config", "routes", *command], capture_output=True, text=True, check=False
    )


def written(folder: Path, route: dict[str, Any]) -> str:
    path = folder / "alertmanager.yml"
    receivers = [{"name": name} for name in RECEIVERS]
    path.write_text(yaml.safe_dump({"route": route, "receivers": receivers}))
    return str(path)


@pytest.mark.parametrize("seed", range(15))
def test_drawn_trees_route_drawn_labels_alike(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    config = written(tmp_path, drawn_route(chance))
    for _ in range(4):
        labels = [f"{name}={json.dumps(text)}" for name, text in drawn_labels(chance).items()]
        theirs = amtool("test", f"--config.file={config}", *labels).stdout.strip()
        ours = ["notify", "route", "--alertmanager-config", config, *labels]
        assert main([*ours, "--format", "json"]) == 0
        routes = json.loads(capsys.readouterr().out)
        assert ",".join(route["receiver"] for route in routes) == theirs
        # Verified as amtool verifies, in its own spelling of the option.
        for expected in (theirs, ",".join(reversed(RECEIVERS)), "r1"):
            verify = f"--verify.receivers={expected}"
            status = amtool("test", f"--config.file={config}", verify, *labels).returncode
            assert main([*ours, verify]) == status
            capsys.readouterr()


def test_the_tree_has_the_routes_that_amtool_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(15):
        config = written(tmp_path, drawn_route(random.Random(seed)))
        theirs = amtool("show", f"--config.file={config}").stdout.splitlines()[2:]
        assert main(["notify", "route", "--alertmanager-config", config, "--tree"]) == 0
        ours = capsys.readouterr().out.splitlines()
        assert [their_line(line) for line in theirs if line.strip()] == list(map(our_line, ours))


def their_line(line: str) -> tuple[int, str, str, bool]:
    """(depth, matchers, receiver, continue) of `│   └── {a="b"}  continue: true  receiver: r`."""
    match = re.fullmatch(
        r"([│├└─\s]*)(default-route|\{.*\})(  continue: true)?  receiver: (\w+)", line
    )
    assert match, line
    what = "{}" if match[2] == "default-route" else match[2]
    return len(match[1]) // 4 - 1, what, match[4], bool(match[3])


def our_line(line: str) -> tuple[int, str, str, bool]:
    match = re.fullmatch(r"  ( *)(\{.*\})  (\w+)  \(by (.*)\)", line)
    assert match, line
    return len(match[1]) // 2, match[2], match[3], match[4].endswith(", continue")
