"""A worker that simulates nothing; what it does instead is named by the policy."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from metronome_opt.bench.simulation_worker import columns_of
from metronome_opt.bench.worker import Tell, serve


def well(document: dict[str, Any], tell: Tell) -> None:
    """Tell of the jobs of the scenario; how long they took depends on the seed."""
    import pandas as pd

    names = [job["name"] for job in document["scenario"]["jobs"]]
    times = [document["seed"] + 1 / 3] * len(names)
    jobs = pd.DataFrame({"job": names, "completion_s": times, "score": math.nan, "finished": True})
    tell(
        "end",
        runtime_s=0.25,
        jobs=columns_of(jobs),
        links=columns_of(pd.DataFrame({"link": ["l"], "carried_gbit": [0.1]})),
        samples={},
        makespan_s=max(times),
        events=7,
        notes=["fake"],
    )


def slow(document: dict[str, Any], tell: Tell) -> None:
    time.sleep(0.3)
    well(document, tell)


def abort(*_: Any) -> NoReturn:
    os.abort()


def fail(*_: Any) -> NoReturn:
    raise ValueError("a fault\nof two lines")


def hang(*_: Any) -> NoReturn:
    while True:
        time.sleep(1)


def eat(*_: Any) -> NoReturn:
    eaten = []
    while True:
        eaten.append(b"x" * 2**25)
        time.sleep(0.02)


def refuse(_: Any, tell: Tell) -> None:
    tell("error", kind="refused", text="jobs[0].batch: is not to be had")


FAKES: dict[str, Callable[[dict[str, Any], Tell], None]] = {
    each.__name__: each for each in (well, slow, abort, fail, hang, eat, refuse)
}


def run(document: dict[str, Any], tell: Tell) -> None:
    tell("ready")
    FAKES[document["policy"]](document, tell)


if __name__ == "__main__":
    sys.exit(serve(run, lambda: None))
