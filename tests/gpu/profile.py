"""What torch.profiler (CUPTI) says, read from the trace that it exports. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# Categories of the trace: calls of the two APIs, and what ran on the device.
APIS = ("cuda_runtime", "cuda_driver")
DIRECTIONS = {"HtoD": "h2d", "DtoH": "d2h", "DtoD": "d2d", "HtoH": "h2h", "PtoP": "peer"}


@dataclass
class Profile:
    """Calls by name: how many, and seconds in all. Copies by direction: how many bytes."""

    calls: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    kernels: int = 0


def read_trace(text: str) -> Profile:
    """From the text of a Chrome trace. Raises ValueError for what is none."""
    try:
        events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("not a Chrome trace") from error
    found = Profile()
    for event in events:
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in APIS:
            found.calls[name] = found.calls.get(name, 0) + 1
            found.seconds[name] = found.seconds.get(name, 0.0) + float(event.get("dur", 0)) / 1e6
        elif category == "kernel":
            found.kernels += 1
        elif category == "gpu_memcpy":
            _add_copy(found, name, event.get("args", {}))
    return found


def _add_copy(found: Profile, name: str, details: dict[str, Any]) -> None:
    """`Memcpy HtoD (Pageable -> Device)`, with its bytes among the details."""
    words = name.split()
    direction = DIRECTIONS.get(words[1] if len(words) > 1 else "", "unknown")
    found.bytes[direction] = found.bytes.get(direction, 0) + int(details.get("bytes", 0))
