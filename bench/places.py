"""How long it takes to find what the probes of PyTorch look for in a library.

python -m bench.places [LIBRARY]      # by default the libtorch_cpu.so of this Python's PyTorch
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

from probes.elf.image import Image
from probes.functions.places import find_places
from probes.gloo.functions import FUNCTIONS
from probes.torch_step.functions import TORCH, functions


def main() -> int:
    """Seconds of CPU time for each function; 2 where there is no library."""
    spec = find_spec("torch")
    path = sys.argv[1] if len(sys.argv) > 1 else ""
    if not path and spec is not None and spec.origin is not None:
        path = str(Path(spec.origin).with_name("lib") / TORCH)
    if not path:
        print("no PyTorch here: name a library", file=sys.stderr)
        return 2
    total = 0.0
    with Image(path) as image:
        for function in (*functions(()), *FUNCTIONS):
            if function.library == TORCH:
                began = time.process_time()
                places = find_places(image, function)
                took = time.process_time() - began
                total += took
                print(f"{took:7.3f} s  {len(places.symbols)} of {function.name}")
    print(f"{total:7.3f} s  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
