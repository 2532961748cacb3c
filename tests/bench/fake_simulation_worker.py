"""A worker that simulates nothing; what it does instead is named by the policy."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from metronome_opt.bench.simulation_worker import columns_of
from metronome_opt.bench.worker import Tell, serve
from tests.bench import fake_worker


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


def refuse(_: Any, tell: Tell) -> None:
    tell("error", kind="refused", text="jobs[0].batch: is not to be had")


FAKES: dict[str, Callable[[dict[str, Any], Tell], None]] = {"well": well, "refuse": refuse}


def run(document: dict[str, Any], tell: Tell) -> None:
    tell("ready")
    policy = document["policy"]
    if policy in FAKES:
        FAKES[policy](document, tell)
    else:
        fake_worker.FAKES[policy](tell)


if __name__ == "__main__":
    sys.exit(serve(run, lambda: None))
