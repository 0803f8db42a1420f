from __future__ import annotations

import re
from pathlib import Path

import yaml

from engine.config.kinds import Kinds
from engine.config.loader import load_config
from engine.config.model import Config

PAGE = Path(__file__).resolve().parents[3] / "docs/configuration.md"


def test_the_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    block = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    written = yaml.safe_load(block)
    assert set(written) == set(Config.model_fields)
    for name in ("node", "route", "state_dir"):
        del written[name]
    file = tmp_path / "stallwatch.yaml"
    file.write_text(yaml.safe_dump(written))
    config = load_config(file, Kinds(probes=frozenset({"tcp_retransmit"})))
    defaults = Config()
    for name in set(written) - {"probes"}:
        assert getattr(config, name) == getattr(defaults, name), name
