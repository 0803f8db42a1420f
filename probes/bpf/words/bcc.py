"""Respells the map calls of our programs for bcc.

bcc rewrites `map.lookup(&key)` in place and refuses it inside a C macro, so what would be a macro
for libbpf is replaced here, in the text, line by line. Arguments hold no comma and no nested
call; that is the whole grammar.
"""

from __future__ import annotations

import re
from pathlib import Path

_ARGUMENT = r"\s*([^,()]+?)\s*"

_CALLS = {
    "sw_lookup": (2, r"\1.lookup(\2)"),
    "sw_update": (3, r"\1.update(\2, \3)"),
    "sw_insert": (3, r"\1.insert(\2, \3)"),
    "sw_delete": (2, r"\1.delete(\2)"),
    "sw_add": (
        3,
        (
            r"do { u32 index_ = \2; u64 *counter_ = \1.lookup(&index_);"
            r" if (counter_) __sync_fetch_and_add(counter_, \3); } while (0)"
        ),
    ),
    # Atomic, because uprobe programs can be preempted in mid-addition.
    "sw_count": (
        2,
        (
            r"do { u32 index_ = \2; u64 *counter_ = \1.lookup(&index_);"
            r" if (counter_) __sync_fetch_and_add(counter_, 1); } while (0)"
        ),
    ),
}
# The ring is whichever the reader has put into the slot.
_RING_OUTPUT = (
    r"({ u32 slot_ = 0; void *ring_ = \1.lookup(&slot_); u64 *mark_ = \1_wake.lookup(&slot_);"
    r" ring_ && mark_ ? sw_ring_output(ring_, \3, sizeof(*(\3)), *mark_) : -1; })"
)
_PERF_OUTPUT = r"\1.perf_submit(\2, \3, sizeof(*(\3)))"


# bcc rewrites only what is in the one text that it is given.
_INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)
WORDS = Path(__file__).parent


def respell(program: str, *, ring: bool, folder: Path = WORDS) -> str:
    """The whole source for bcc: declarations, then the program with its lines kept.

    `#include "calls.h"` is replaced by that header: of `folder`, where the program lies, or of
    words. A header includes no other. Raises OSError when there is none of that name.
    """
    program = _INCLUDE.sub(lambda found: _included(program, found, folder), program)
    calls = {**_CALLS, "sw_output": (3, _RING_OUTPUT if ring else _PERF_OUTPUT)}
    for word, (count, template) in calls.items():
        pattern = rf"\b{word}\({','.join([_ARGUMENT] * count)}\)"
        program = re.sub(pattern, template, program)
    program = program.replace("__sync_fetch_and_add(", "sw_add_whole(")
    header = (WORDS / "bcc.h").read_text(encoding="utf-8")
    return f'{header}\n#line 1 "program.bpf.c"\n{program}'


def _included(program: str, found: re.Match[str], folder: Path) -> str:
    beside = folder / found[1]
    text = (beside if beside.is_file() else WORDS / found[1]).read_text(encoding="utf-8")
    following = program.count("\n", 0, found.start()) + 2
    return f'#line 1 "{found[1]}"\n{text}#line {following} "program.bpf.c"'
