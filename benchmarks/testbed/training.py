"""One rank of a real training job: PyTorch's DistributedDataParallel over gloo.

A program like `worker`, for a Python that has PyTorch. Computing is sleeping, as an accelerator
would do it elsewhere; forward, backward, buckets, all-reduces and the optimiser are real.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.testbed import clock
from benchmarks.testbed.worker import (
    PORT,
    factors,
    gate_of,
    hear_starts,
    sleep,
    take_precedence,
)
from metronome_opt.gate import ddp

_WIDTH = 256
_BATCH = 8
# What is real takes its time as well: this much of the stated computing, and of the stated burst.
_STEP_MS = 17.0
_GLOO = 0.05


def main() -> None:
    """Run one rank."""
    task = json.loads(sys.stdin.readline())
    starts = hear_starts()
    real_time = take_precedence()
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{task['addresses'][0]}:{PORT}",
        rank=task["rank"],
        world_size=len(task["addresses"]),
    )
    model = DistributedDataParallel(network((1 - _GLOO) * task["bursts"][0][1]))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    step(model, optimiser, task["rank"], -1)  # buckets are made anew after the first
    print("ready", flush=True)
    start_ns = starts.get()
    if task["claim"]:
        ddp.register(model, gate_of(task["claim"], start_ns))
    seen = train(task, model, optimiser, start_ns)
    print(json.dumps({**seen, "real_time": real_time}), flush=True)


def network(size: float) -> torch.nn.Module:
    """Return a network whose gradients have about so many bytes."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for _ in range(max(1, round(size / (4 * _WIDTH * (_WIDTH + 1))))):
        layers += [torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers)


def step(model: Any, optimiser: Any, rank: int, iteration: int) -> float:
    """Train on one batch; return the loss."""
    torch.manual_seed(1000 * (iteration + 1) + rank)
    batch = torch.randn(_BATCH, _WIDTH)
    optimiser.zero_grad(set_to_none=False)
    loss = ((model(batch) - batch) ** 2).mean()
    loss.backward()
    optimiser.step()
    return float(loss.detach())


def train(task: dict[str, Any], model: Any, optimiser: Any, start_ns: int) -> dict[str, Any]:
    """Train for the stated iterations; return what happened, in ms since the start."""
    stated_ms = sum(compute for compute, _ in task["bursts"]) + task["rest_ms"]
    compute_s = max(0.0, stated_ms - _STEP_MS) / 1e3
    begins, losses, late = [], [], []
    drawn = factors(task["seed"], task["jitter"])
    sleep((start_ns - clock.wall_ns()) / 1e9 + task["begin_ms"] / 1e3)
    for iteration in range(task["iterations"]):
        begins.append((clock.wall_ns() - start_ns) / 1e6)
        late.append(sleep(compute_s * next(drawn)))
        losses.append(step(model, optimiser, task["rank"], iteration))
    begins.append((clock.wall_ns() - start_ns) / 1e6)
    late.sort()
    return {
        "begins_ms": [round(each, 3) for each in begins],
        "bursts_ms": [],
        "losses": losses,
        "late_p95_ms": round(1e3 * late[int(0.95 * (len(late) - 1))], 3),
        "late_max_ms": round(1e3 * late[-1], 3),
        "ended": None,
    }


if __name__ == "__main__":
    main()
