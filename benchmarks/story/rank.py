"""One rank of a job as the container of a pod: computes, which is sleeping, then bursts.

It finds the other ranks by name, as pods find each other: in a file of names and addresses. After
each iteration it prints how late the machine woke it up, in ms. A file says how long it computes,
and when the job is done.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.testbed.worker import connect, exchange, hear_starts, sleep, take_precedence
from metronome_opt.gate import Gate

_STALLED_S = 60.0


def main() -> int:
    """Iterate until the job is done; 1 if another rank is gone before."""
    hear_starts()  # ends this when whoever started it is gone
    take_precedence()
    names = os.environ["PEERS"].split(",")
    order, size = Path(os.environ["ORDER"]), int(os.environ["BURST_BYTES"])
    rank, steps = names.index(os.environ["HOSTNAME"]), 2 * (len(names) - 1)
    task = {"rank": rank, "addresses": _addresses(names), "congestion": "cubic"}
    gate = Gate.from_environment()
    to, origin = connect(task)
    told: dict[str, Any] = {}
    try:
        while not (told := json.loads(order.read_text()))["done"]:
            late = sleep(told["compute_ms"] / 1e3)
            with gate.burst(sent_bytes=size):
                for step in range(steps):
                    part = (step + 1) * size // steps - step * size // steps
                    exchange(to, origin, part)
            os.write(1, f"{1e3 * late:.3f}\n".encode())
    except (OSError, EOFError):
        return 0 if json.loads(order.read_text())["done"] else 1
    return 0


def _addresses(names: list[str]) -> list[str]:
    """Wait until all ranks have an address."""
    until = time.monotonic() + _STALLED_S
    while True:
        known = json.loads(Path(os.environ["HOSTS"]).read_text())
        if all(name in known for name in names):
            return [known[name] for name in names]
        if time.monotonic() > until:
            raise TimeoutError(f"no address of all of {names}")
        time.sleep(0.05)


if __name__ == "__main__":
    raise SystemExit(main())
