"""A real DDP or FSDP job on Gloo and CPU: one process per rank, started by the caller.

Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME from the environment, as
torchrun sets them. Every rank trains the same little network from the same seed for a fixed number
of steps; --report names a file that receives, as JSON, this rank's pid, steps, seconds slept and
largest resident set, twice a second, and at the end its step times. --trace names a file that
receives the end of each step as a double, in seconds of CLOCK_MONOTONIC.

Exit status: 0 done; 3 the other rank was lost, and the RuntimeError that PyTorch raised for it was
caught here; with --exec-at-end what `sh` says, which is 5.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PEER_LOST = 3
WRITE_SECONDS = 0.5


def arguments() -> argparse.Namespace:
    """The options, described in --help."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="0: until killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dim", type=int, default=256, help="width of the layers")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--timeout", type=float, default=60.0, help="of a collective, in seconds")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before the first step")
    parser.add_argument("--sleep-before-backward", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that each step rests")
    parser.add_argument("--kind", choices=["ddp", "fsdp1", "fsdp2"], default="ddp")
    parser.add_argument("--sleep-rank", type=int, default=-1, metavar="RANK")
    parser.add_argument("--sleep-every", type=int, default=1, metavar="STEPS")
    parser.add_argument("--sleep-while", type=Path, help="sleep only while this file exists")
    parser.add_argument("--die-rank", type=int, default=-1, metavar="RANK")
    parser.add_argument("--die-at-step", type=int, default=-1, metavar="STEP")
    parser.add_argument("--workers", type=int, default=0, help="forked, to load the batches")
    parser.add_argument(
        "--spawn-every", type=int, default=0, metavar="STEPS", help="run a program, load a library"
    )
    parser.add_argument("--exec-at-end", action="store_true", help="become another program")
    parser.add_argument("--trace", type=Path, help="where to write the end of each step")
    parser.add_argument("--report", type=Path, help="where to write the JSON")
    return parser.parse_args()


class Report:
    """What this rank knows of itself, rewritten whole so that a reader never sees half of it."""

    def __init__(self, path: Path | None, rank: int) -> None:
        self._path = path
        self.facts: dict[str, object] = {"rank": rank, "pid": os.getpid(), "error": ""}
        self.times: list[float] = []
        self.slept_seconds = 0.0
        self._written = 0.0

    def sleep(self, seconds: float) -> None:
        """Be late; a busy machine makes it later, so the truth is measured."""
        began = time.monotonic()
        time.sleep(seconds)
        self.slept_seconds += time.monotonic() - began

    def write(self, *, whole: bool = True) -> None:
        """Write the file by rename; without the step times when not `whole`."""
        if self._path is None or (not whole and time.monotonic() - self._written < WRITE_SECONDS):
            return
        scratch = self._path.with_suffix(f".{os.getpid()}")
        usage = resource.getrusage(resource.RUSAGE_SELF)
        facts = {
            **self.facts,
            "steps": len(self.times),
            "slept_seconds": self.slept_seconds,
            "max_rss_bytes": usage.ru_maxrss * 1024,
        }
        scratch.write_text(json.dumps({**facts, "step_seconds": self.times} if whole else facts))
        scratch.replace(self._path)
        self._written = time.monotonic()


def batches(options: argparse.Namespace) -> Iterator[Any]:
    """The same batch for ever; with --workers from processes that are forked every 20 steps."""
    import torch
    from torch.utils.data import DataLoader

    data = torch.randn(options.batch, options.dim)
    while not options.workers:
        yield data
    while True:
        yield from DataLoader([data] * 20, batch_size=None, num_workers=options.workers)


def spawn() -> None:
    """What a training script does at times: fork, run a program, load and unload a library."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run(["true"], check=True)
    import _ctypes
    import ctypes

    library = ctypes.CDLL("libutil.so.1")
    _ctypes.dlclose(library._handle)


def distribute(kind: str, model: Any) -> Any:
    """The model, its gradients or its parameters shared among the ranks."""
    import torch
    from torch import nn

    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    if kind == "fsdp2":
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return nn.parallel.DistributedDataParallel(model)


def sleeps(options: argparse.Namespace, step: int) -> bool:
    """Whether the rank that sleeps does so in this step."""
    due = step % options.sleep_every == 0
    return due and (options.sleep_while is None or options.sleep_while.exists())


def train(options: argparse.Namespace, report: Report) -> None:
    """The training loop."""
    import torch
    import torch.distributed as dist
    from torch import nn

    rank = dist.get_rank()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    layers = [nn.Linear(options.dim, options.dim), nn.ReLU()] * 2
    model = distribute(options.kind, nn.Sequential(*layers, nn.Linear(options.dim, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    report.write()
    time.sleep(options.pause)
    trace = options.trace.open("wb", buffering=0) if options.trace else None
    for step, data in enumerate(batches(options)):
        if options.steps and step == options.steps:
            break
        if options.spawn_every and step % options.spawn_every == 0:
            spawn()
        started = time.monotonic()
        time.sleep(options.pace)
        loss = model(data).square().mean()
        if rank == options.sleep_rank and sleeps(options, step):
            report.sleep(options.sleep_before_backward)
        if rank == options.die_rank and step == options.die_at_step:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        report.times.append(time.monotonic() - started)
        report.write(whole=False)
        if trace is not None:
            trace.write(struct.pack("=d", time.monotonic()))


def main() -> int:
    """Train; the exit status."""
    options = arguments()
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    report = Report(options.report, rank)
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
        train(options, report)
    except RuntimeError as error:
        report.facts["error"] = f"{type(error).__name__}: {error}"[:500]
        report.write()
        print(f"rank {rank}: caught {type(error).__name__}", file=sys.stderr, flush=True)
        # Works of the lost peer are still held by Gloo's threads. One that lets go of its tensors
        # while Python ends is unwound there, and C++ aborts (probes/torch_step/README.md): a race
        # of PyTorch's own, with or without probes. What counts here is that the error was caught.
        os._exit(PEER_LOST)
    report.write()
    # Ranks leave together; one that goes early would look like a lost peer.
    dist.barrier()
    dist.destroy_process_group()
    if options.exec_at_end:
        os.execv("/bin/sh", ["sh", "-c", "exit 5"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
