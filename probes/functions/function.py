"""A function to be probed, as a probe names it."""

from __future__ import annotations

from rules.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Function:
    """What is probed, where, and with which programs of the BPF source.

    `name`: label value and budget key ("cudaMemcpy"). `library`: beginning of the file's name
    ("libcudart.so"), or a glob over it. `symbols`: exact ELF names, globs over them ("ncclAll*"),
    demangled names without parameters ("c10d::Reducer::finalize_backward") or globs over those;
    symbols at one address are probed once.
    `enter` runs at the entry, `leave` at every exit ("": entry only). Where exits cannot be found
    `mark` runs at the entry instead of `enter`, with nothing at the exits ("": `enter`). `colder`:
    names of Functions that may stand in for it when it is over budget. `optional`: a file without
    it is nothing to report. `most`: symbols that its patterns may match in one file.
    """

    name: str
    library: str
    symbols: tuple[str, ...]
    enter: str
    leave: str = ""
    colder: tuple[str, ...] = ()
    mark: str = ""
    optional: bool = False
    most: int = 32
