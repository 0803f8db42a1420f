"""Snapshots of folds: one file for all baselines of an hour, read back whole or not at all.

A file is a magic word, the checksum of what follows, and deflated: a line of JSON that says whose
states follow, and these. It is a cache: where it is missing or damaged, the fold begins earlier.
"""

from __future__ import annotations

import json
import struct
import zlib
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from engine.baselines.anomaly.model import MODEL_VERSION, AnomalyModel
from engine.baselines.fold import Element, Fold
from engine.labels import Labels
from rules.errors import StallwatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.baselines.points import Key
    from engine.baselines.settings import BaselineSettings

_MAGIC = b"SWBL1\n"
_CHECKSUM = struct.Struct("<I")
_SCORE = struct.Struct("<d")


class BadSnapshotError(StallwatchError):
    """A snapshot that cannot be gone on from."""


def encode(folds: Mapping[str, Fold]) -> bytes:
    """The folds by what they are of, as a file's content."""
    blobs: list[bytes] = []
    rows = [_row(text, fold, blobs) for text, fold in folds.items() if fold.folded_ms is not None]
    head = json.dumps({"model": MODEL_VERSION, "folds": rows}, separators=(",", ":")).encode()
    content = zlib.compress(b"".join([head, b"\n", *blobs]), 1)
    return _MAGIC + _CHECKSUM.pack(zlib.crc32(content)) + content


def decode(content: bytes, text: str, settings: BaselineSettings) -> Fold | None:
    """The fold of an expression, None if it is not among them or is of another resolution or model.

    Raises BadSnapshotError for what is no whole snapshot.
    """
    start = len(_MAGIC) + _CHECKSUM.size
    if not content.startswith(_MAGIC) or len(content) < start:
        raise BadSnapshotError("is no snapshot of baselines")
    if _CHECKSUM.unpack_from(content, len(_MAGIC)) != (zlib.crc32(content[start:]),):
        raise BadSnapshotError("is damaged: its checksum does not match")
    try:
        head, _, blobs = zlib.decompress(content[start:]).partition(b"\n")
        meta = json.loads(head)
        if meta["model"] != MODEL_VERSION:
            return None
        for row in meta["folds"]:
            if row["expr"] == text and row["resolution_ms"] == settings.resolution_ms:
                return _fold(row, blobs, settings)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        raise BadSnapshotError(f"is of no known form ({error})") from None
    return None


def _row(text: str, fold: Fold, blobs: list[bytes]) -> dict[str, Any]:
    states = [element.model.state() for element in fold.elements.values()]
    row = {
        "expr": text,
        "resolution_ms": fold.settings.resolution_ms,
        "folded_ms": fold.folded_ms,
        "evicted": fold.evicted,
        "start": sum(map(len, blobs)),
        "elements": [
            [*_key(key), element.last_ms, len(state)]
            for (key, element), state in zip(fold.elements.items(), states, strict=True)
        ],
        "gone": [[*_key(key), last_ms] for key, last_ms in fold.gone.items()],
    }
    for element, state in zip(fold.elements.values(), states, strict=True):
        blobs += [_SCORE.pack(element.score), state]
    return row


def _fold(row: dict[str, Any], blobs: bytes, settings: BaselineSettings) -> Fold:
    lengths = [_SCORE.size + size for *_, size in row["elements"]]
    elements: dict[Key, Element] = {}
    edges = pairwise(accumulate(lengths, initial=row["start"]))
    for (pairs, drop, last_ms, _), (start, end) in zip(row["elements"], edges, strict=True):
        model = AnomalyModel.from_state(blobs[start + _SCORE.size : end])
        (score,) = _SCORE.unpack_from(blobs, start)
        elements[_labels(pairs), bool(drop)] = Element(model, int(last_ms), score)
    gone = {(_labels(pairs), bool(drop)): int(last_ms) for pairs, drop, last_ms in row["gone"]}
    fold = Fold(settings)
    fold.restore(int(row["folded_ms"]), elements, gone)
    fold.evicted = int(row["evicted"])
    return fold


def _key(key: Key) -> list[Any]:
    labels, drops = key
    return [list(map(list, labels.pairs)), drops]


def _labels(pairs: list[list[str]]) -> Labels:
    return Labels((name, value) for name, value in pairs)
