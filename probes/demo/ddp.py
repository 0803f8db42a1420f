"""A real PyTorch DistributedDataParallel job on Gloo: a small model, its gradients all-reduced."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 256


def join() -> Callable[[], None]:
    """Join the job that the environment names (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).

    The answer makes one training step.
    """
    import torch
    from torch import distributed, nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(16, WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step
