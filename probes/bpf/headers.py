"""Which kernel headers bcc is given: the stub tree that is shipped, or the node's own."""

from __future__ import annotations

import platform
from pathlib import Path

STUBS = Path(__file__).with_name("kernel")
_KHEADERS = Path("/sys/kernel/kheaders.tar.xz")


def of_the_node(modules: Path = Path("/lib/modules"), archive: Path = _KHEADERS) -> Path | None:
    """The running kernel's headers where bcc will find them, None when there are none.

    As bcc looks: /lib/modules/RELEASE/build or source, then the archive of CONFIG_IKHEADERS.
    """
    release = modules / platform.release()
    for place in (release / "build", release / "source", archive):
        if place.exists():
            return place
    return None
