"""Training loops whose steps are marked in different ways, or not at all. Gloo, CPU.

`steps.py KIND STEPS REPORT`: KIND is one of the functions below. With RANK in the environment a
process group is made first. REPORT receives {"pid", "steps", "backwards", "optimizer_steps"}, JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

FACTS: dict[str, int] = {"pid": os.getpid(), "steps": 0, "backwards": 0, "optimizer_steps": 0}


def model() -> Any:
    """Three blocks, so that FSDP has something to wrap."""
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*blocks, nn.Linear(64, 1))


def backward(network: Any) -> None:
    """A forward and a backward pass."""
    network(torch.randn(8, 64)).square().mean().backward()
    FACTS["backwards"] += 1


def update(optimizer: Any) -> None:
    """A step of the optimizer."""
    optimizer.step()
    optimizer.zero_grad()
    FACTS["optimizer_steps"] += 1


def plain(steps: int, network: Any = None, passes: int = 1) -> None:
    """The ordinary loop."""
    network = network or model()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in range(steps):
        for _ in range(passes):
            backward(network)
        update(optimizer)
        FACTS["steps"] += 1


def accumulate(steps: int) -> None:
    """Gradients of four passes for each step."""
    plain(steps, passes=4)


def marked(steps: int) -> None:
    """Two optimizers for each step, as a GAN has them, and a marker that says what a step is."""
    networks = [model(), model()]
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3) for each in networks]
    for _ in range(steps):
        for network, optimizer in zip(networks, optimizers, strict=True):
            backward(network)
            update(optimizer)
        FACTS["steps"] += 1
        with torch.profiler.record_function("stallwatch.step"):
            pass


def fsdp1(steps: int) -> None:
    """FullyShardedDataParallel, each block wrapped."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    policy = ModuleWrapPolicy({nn.Sequential})
    device = torch.device("cpu")
    plain(steps, FullyShardedDataParallel(model(), auto_wrap_policy=policy, device_id=device))


def fsdp2(steps: int) -> None:
    """fully_shard, each block wrapped."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    network = model()
    for block in network:
        if isinstance(block, nn.Sequential):
            fully_shard(block, mesh=mesh)
    plain(steps, fully_shard(network, mesh=mesh))


def by_hand(steps: int) -> None:
    """Gradients reduced and applied by hand: nothing marks a step."""
    network = model()
    for _ in range(steps):
        backward(network)
        for parameter in network.parameters():
            dist.all_reduce(parameter.grad)
            parameter.data -= 1e-3 * parameter.grad
            parameter.grad = None
        dist.broadcast(torch.zeros(1), 0)
        FACTS["steps"] += 1
        time.sleep(0.01)


def main() -> None:
    """See the module."""
    kind, steps, report = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    globals()[kind](steps)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    report.write_text(json.dumps(FACTS))


def spawned(rank: int, store: str) -> None:
    """A rank that no environment names."""
    group = dist.FileStore(store, 2)
    dist.init_process_group("gloo", store=group, rank=rank, world_size=2)
    half = dist.new_group([1])
    if rank == 1:
        dist.barrier(half)
    dist.barrier()
    Path(f"{store}.{rank}").write_text(str(os.getpid()))
    time.sleep(2)
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(spawned, (sys.argv[3],), nprocs=2)
    else:
        main()
