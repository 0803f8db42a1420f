"""One rank of the demo's job, a process of its own: `python -m probes.demo.rank ring|ddp`.

It takes its place from RANK, MASTER_ADDR and the like, steps about twenty times a second and
prints the number of steps done twice a second. It ends when its standard input does, so that no
rank outlives a demo that was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from probes.demo import ddp, ring
from probes.demo.network import ADDRESSES

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_SECONDS = 0.05
REPORT_SECONDS = 0.5
RING_PORT = 29600
# As many gradients as `ddp` has: 2 layers of 256 x 256 and their biases, here in float64.
RING_VALUES = 2 * (256 * 256 + 256)


def main() -> None:
    """Step until the demo is over."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    step = ddp.join() if sys.argv[1] == "ddp" else _ring_step()
    done, reported = 0, 0.0
    while True:
        started = time.monotonic()
        step()
        done += 1
        if started - reported >= REPORT_SECONDS:
            print(done, flush=True)
            reported = started
        time.sleep(max(0.0, STEP_SECONDS - (time.monotonic() - started)))


def _ring_step() -> Callable[[], None]:
    import numpy as np

    place = ring.join(int(os.environ["RANK"]), [(host, RING_PORT) for host in ADDRESSES])
    gradients = np.ones(RING_VALUES)

    def step() -> None:
        place.all_reduce(gradients)

    return step


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
