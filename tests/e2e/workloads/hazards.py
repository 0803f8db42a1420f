"""Two ranks on Gloo that meet one hazard each: `hazards.py KIND FOLDER`, as torchrun sets up ranks.

What a rank computed goes to its output, each loss to the last bit, and nothing that two runs would
not have alike. FOLDER is shared by the ranks. Exit status 3: an exception of PyTorch was caught.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CAUGHT = 3
STEPS = 60
RANK, FOLDER = int(os.environ["RANK"]), Path(sys.argv[2])
DONE = FOLDER / "done"
NUMBER = re.compile(r"[0-9]+")
LOST = re.compile("reset by peer|closed by peer|Broken pipe")


def say(*words: object) -> None:
    """A line of output."""
    print(*words, flush=True)


def join(seconds: float = 60.0) -> None:
    """Make the process group."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))


def network() -> Any:
    """The same on each rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def losses(model: Any, steps: int = STEPS) -> Iterator[float]:
    """Train, a step for each loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(steps):
        torch.manual_seed(1000 * step + RANK)
        loss = model(torch.randn(16, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def train(model: Any | None = None, after: Callable[[int], None] = lambda _: None) -> None:
    """Every step's loss."""
    if model is None:
        model = nn.parallel.DistributedDataParallel(network())
    for step, loss in enumerate(losses(model)):
        say(step, loss.hex())
        after(step)


def leave() -> None:
    """The ranks leave together."""
    dist.barrier()
    dist.destroy_process_group()


def wait_for(path: Path) -> None:
    """Until the other rank has made a file."""
    deadline = time.monotonic() + 180
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain for {path.name}")
        time.sleep(0.01)


def timeout() -> None:
    """Rank 1 never comes to the last collective."""
    join(8.0)
    train()
    if RANK == 1:
        wait_for(DONE)
        os._exit(0)
    dist.all_reduce(torch.ones(4))


def connect() -> None:
    """Rank 1 comes to the store and never to the mesh: rank 0 gives up connecting."""
    (FOLDER / f"up{RANK}").touch()
    wait_for(FOLDER / f"up{1 - RANK}")
    if RANK == 0:
        join(5.0)
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, 2, is_master=False)
    wait_for(DONE)
    del store


def killed() -> None:
    """FSDP2; rank 1 is killed, and rank 0 learns of it in a collective."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def die(step: int) -> None:
        if step == STEPS // 2:
            dist.barrier()
            if RANK == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    join()
    train(fully_shard(network(), mesh=init_device_mesh("cpu", (2,))), die)


def child(seed: int) -> str:
    """A forked child trains by itself."""
    torch.manual_seed(seed)
    *_, last = losses(network(), 5)
    return last.hex()


def forks() -> None:
    """Children that compute, made by fork, and the workers of a DataLoader."""
    from torch.utils.data import DataLoader

    join()
    model = nn.parallel.DistributedDataParallel(network())
    for seed in range(3):
        torch.set_num_threads(1)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            say(*pool.map(child, [seed, seed + 1]))
        data = torch.arange(64.0 * 16).reshape(16, 64)
        for batch in DataLoader(data, batch_size=4, num_workers=2):
            say(model(batch).square().mean().item().hex())
    train(model)
    leave()


def signals() -> None:
    """A signal every few milliseconds, also while a rank waits for a late one."""
    join()
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    ended = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def ring() -> None:
        while not ended.wait(0.003):
            signal.pthread_kill(main, signal.SIGUSR1)

    threading.Thread(target=ring, daemon=True).start()
    train(after=lambda step: time.sleep(0.02 * (step % 2 == RANK)))
    ended.set()
    say("heard" if heard else "heard nothing")
    leave()


def profiled() -> None:
    """torch.profiler, and what it counted."""
    from torch.profiler import ProfilerActivity, profile

    join()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        train()
    rows = {row.key: row.count for row in session.key_averages()}
    for key in ("Optimizer.step#SGD.step", "aten::addmm", "DistributedDataParallel.forward"):
        say(key, rows[key])
    leave()


def traced() -> None:
    """Steps until the file `done` is there, so that others come and go meanwhile; then as ever."""
    join()
    model = nn.parallel.DistributedDataParallel(network())
    steps, enough = 0, torch.zeros(1)
    while not enough.item():
        for _ in losses(model, 1):
            steps += 1
            (FOLDER / f"steps{RANK}").write_text(str(steps))
        time.sleep(0.02)
        enough = torch.tensor([float(DONE.exists())])
        dist.all_reduce(enough)
    train()
    leave()


def main() -> int:
    """Run one kind; the exit status."""
    torch.set_num_threads(1)
    try:
        globals()[sys.argv[1]]()
    # DistError and its kin, and what a Gloo wait raises.
    except RuntimeError as error:
        # Ports and milliseconds differ from run to run, and so does what finds a peer gone.
        lost = LOST.search(str(error)) is not None
        what = "a lost peer" if lost else NUMBER.sub("#", str(error))
        say(type(error).__name__, what.partition("\n")[0])
        DONE.touch()
        if lost:
            # Gloo's threads still hold works of the peer, and while Python ends one may abort: a
            # race of PyTorch's own, with or without probes. What counts is that it was caught.
            os._exit(CAUGHT)
        return CAUGHT
    return 0


if __name__ == "__main__":
    sys.exit(main())
