"""The job of the GPU check: `python -m tests.gpu.job FOLDER [--stand-in LIBRARY]`.

PyTorch with CUDA and NCCL (one rank on this machine's first GPU), or, with a stand-in for the CUDA
runtime, the same conversation without either. Reads a JSON list a line and answers with a line of
JSON. It imports its neighbours and nothing else of ours: any Python with PyTorch will do.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from tests.gpu import exact_calls
from tests.gpu.profile import Profile, read_trace

MIB = 1 << 20


class Backend(Protocol):
    """What makes the steps."""

    def facts(self) -> dict[str, Any]:
        """What it runs on."""
        ...

    def runtime(self) -> Any:
        """The CUDA runtime, by ctypes."""
        ...

    def collectives(self, count: int, size_bytes: int) -> dict[str, Any]:
        """All-reduce so often; what was asked for."""
        ...

    def step(self) -> None:
        """One training step, synchronised at its end."""
        ...

    def profile(self, steps: int) -> Profile | None:
        """Steps under the profiler; None where there is none."""
        ...

    def leak(self, count: int, size_bytes: int) -> int:
        """Keep so many buffers for ever; how many bytes more are reserved."""
        ...


class TorchBackend:
    """A small network under DistributedDataParallel, over NCCL."""

    def __init__(self, folder: Path) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist, self._folder = torch, dist, folder
        torch.manual_seed(0)
        torch.cuda.set_device(0)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(random.Random().randint(20000, 60000)))
        dist.init_process_group("nccl", rank=0, world_size=1)
        width = 2048
        layers = [torch.nn.Linear(width, width) for _ in range(8)]
        self._model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*layers).cuda(), device_ids=[0]
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4)
        self._batch = torch.randn(256, width).pin_memory()
        self._kept: list[Any] = []
        for _ in range(20):
            self.step()

    def facts(self) -> dict[str, Any]:
        torch = self._torch
        return {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "gpu": torch.cuda.get_device_name(0),
        }

    def runtime(self) -> Any:
        return ctypes.CDLL(str(exact_calls.runtime_of_this_process()))

    def collectives(self, count: int, size_bytes: int) -> dict[str, Any]:
        tensor = self._torch.ones(size_bytes // 4, device="cuda")
        for _ in range(count):
            self._dist.all_reduce(tensor)
        self._torch.cuda.synchronize()
        return {"calls": {"all_reduce": count}, "bytes": {"all_reduce": count * size_bytes}}

    def step(self) -> None:
        batch = self._batch.cuda(non_blocking=True)
        self._optimizer.zero_grad()
        loss = self._model(batch).square().mean()
        loss.backward()
        self._optimizer.step()
        float(loss.detach().item())

    def profile(self, steps: int) -> Profile | None:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            self._torch.cuda.synchronize()
            _rendezvous("profiling")
            for _ in range(steps):
                self.step()
            _rendezvous("profiled")
        trace = self._folder / "trace.json"
        profiler.export_chrome_trace(str(trace))
        return read_trace(trace.read_text(encoding="utf-8"))

    def leak(self, count: int, size_bytes: int) -> int:
        before = self._torch.cuda.memory_reserved()
        for _ in range(count):
            self._kept.append(self._torch.empty(size_bytes, dtype=self._torch.uint8, device="cuda"))
        return int(self._torch.cuda.memory_reserved() - before)


class StandIn:
    """The same without a GPU: calls of a compiled stand-in for the runtime."""

    def __init__(self, library: str) -> None:
        self._cuda = ctypes.CDLL(library)
        self._host = ctypes.create_string_buffer(MIB)
        self._waited = 0.0

    def facts(self) -> dict[str, Any]:
        return {"gpu": "none: a stand-in"}

    def runtime(self) -> Any:
        return self._cuda

    def collectives(self, count: int, size_bytes: int) -> dict[str, Any]:
        del count, size_bytes
        return {"calls": {}, "bytes": {}}

    def step(self) -> None:
        self._cuda.cudaMemcpyAsync(
            self._host, self._host, ctypes.c_size_t(MIB), 1, ctypes.c_void_p()
        )
        for _ in range(20):
            self._cuda.cudaLaunchKernelExC(self._host, self._host, ctypes.c_void_p())
        began = time.monotonic()
        self._cuda.cudaStreamSynchronize(ctypes.c_void_p())
        self._waited += time.monotonic() - began
        time.sleep(0.002)

    def profile(self, steps: int) -> Profile | None:
        """Says what it did, as CUPTI would."""
        _rendezvous("profiling")
        self._cuda.stand_in_sync_us(1000)
        self._waited = 0.0
        for _ in range(steps):
            self.step()
        self._cuda.stand_in_sync_us(0)
        _rendezvous("profiled")
        return Profile(
            seconds={"cudaStreamSynchronize": self._waited},
            calls={
                "cudaMemcpyAsync": steps,
                "cudaStreamSynchronize": steps,
                "cudaLaunchKernelExC": 20 * steps,
            },
            bytes={"h2d": steps * MIB},
            kernels=20 * steps,
        )

    def leak(self, count: int, size_bytes: int) -> int:
        for _ in range(count):
            self._cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size_bytes))
        return count * size_bytes


def _rendezvous(word: str) -> None:
    """Tell where we are, and wait to be sent on: the probes are read at this moment."""
    print(json.dumps(word), flush=True)
    sys.stdin.readline()


def train(backend: Backend, seconds: float, trace: Path) -> int:
    """Steps for so long; the end of each, CLOCK_MONOTONIC seconds, as float64 in a file."""
    until, steps = time.monotonic() + seconds, 0
    with trace.open("wb", buffering=0) as file:
        while time.monotonic() < until:
            backend.step()
            file.write(ctypes.c_double(time.monotonic()))
            steps += 1
    return steps


def answer(backend: Backend, folder: Path, word: str, *arguments: Any) -> Any:
    """Do what is asked."""
    if word == "exact":
        return exact_calls.make(backend.runtime())
    if word == "collectives":
        return backend.collectives(*arguments)
    if word == "profile":
        found = backend.profile(*arguments)
        return None if found is None else vars(found)
    if word == "leak":
        return backend.leak(*arguments)
    return train(backend, float(arguments[0]), folder / "steps")


def main() -> None:
    """Serve standard input."""
    folder = Path(sys.argv[1])
    stand_in = sys.argv[3] if sys.argv[2:3] == ["--stand-in"] else ""
    backend: Backend = StandIn(stand_in) if stand_in else TorchBackend(folder)
    print(json.dumps({"pid": os.getpid(), **backend.facts()}), flush=True)
    # Not `for line in sys.stdin`: a rendezvous reads lines too.
    while line := sys.stdin.readline():
        try:
            said = answer(backend, folder, *json.loads(line))
        except exact_calls.CallError as error:
            said = {"failed": str(error)}
        print(json.dumps(said), flush=True)
    # NCCL's teardown may hang without its peers, and everything is said.
    os._exit(0)


if __name__ == "__main__":
    main()
