"""One rank of a small training with DistributedDataParallel; run by test_ddp.py, needs torch.

Arguments: free, gated or dies; rank; port; file for the losses.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from metronome_opt.gate import Gate, ddp

ITERATIONS = 12
WIDTH = 128


def main() -> None:
    mode, rank, port, output = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=timedelta(seconds=30))
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(8)]
    model = DistributedDataParallel(
        torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1)), bucket_cap_mb=0.1
    )
    if mode != "free":
        ddp.register(model, Gate.from_environment())
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    draws = torch.Generator().manual_seed(rank)
    last_gradient: list[int] = []
    layers[0].weight.register_hook(lambda _: last_gradient.append(time.time_ns()))
    losses, waited_ms = [], []
    for iteration in range(ITERATIONS):
        if mode == "dies" and rank == 1 and iteration == 4:
            os._exit(3)
        inputs = torch.randn(16, WIDTH, generator=draws)
        optimiser.zero_grad()
        loss = ((model(inputs) - inputs.sum(1, keepdim=True) / 12) ** 2).mean()
        loss.backward()
        waited_ms.append((time.time_ns() - last_gradient[-1]) / 1e6)
        optimiser.step()
        losses.append(loss.item().hex())
    output.write_text(json.dumps({"losses": losses, "waited_ms": waited_ms}))


main()
