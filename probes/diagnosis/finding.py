"""One answer of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """`state`: ok; degraded (something runs with less); no (something cannot run).

    `detail`: what was seen. `mend`: what to do about it, empty when nothing needs doing.
    """

    subject: str
    state: Literal["ok", "degraded", "no"]
    detail: str
    mend: str = ""
