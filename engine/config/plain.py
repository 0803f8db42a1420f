"""YAML nodes as plain Python values, typed as YAML 1.2's core schema types them."""

from __future__ import annotations

import re
from typing import Any

from rules.document import Mapping, Node, Scalar, Sequence

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}


def plain(node: Node) -> Any:
    """dict, list, str, int, float, bool or None."""
    if isinstance(node, Mapping):
        return {entry.key.value: plain(entry.value) for entry in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return _scalar(node)


def _scalar(node: Scalar) -> Any:
    if node.null:
        return None
    text = node.value
    if node.style or node.tag is not None:
        return text
    if _INTEGER.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9]+", text):
        return int(text)
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if _FLOAT.fullmatch(text) and not _INTEGER.fullmatch(text):
        return float(text)
    return text
