"""Windows beside jitter: jobs of the test bed, free and gated.

`solve` chooses for the jitter that jobs state; plans are simulated with seeds that it never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, product
from typing import NamedTuple

import pandas as pd
from scipy import stats

from benchmarks.registry import RESULTS, Figure, benchmark
from benchmarks.testbed.cases import STORED, read_cases
from metronome_opt import allocate
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.problem.instance import Instance

_PROCESSES = 2
_FIRST_SEED = 5000
_HARM = 0.01


class _Outcome(NamedTuple):
    """Mean slowdowns of the jobs of a case, and the upper limit of what one of them loses."""

    network: str
    noise: float
    free: float
    gated: float
    loss: float


def _case(seeds: int, instance: Instance) -> list[_Outcome]:
    """Return what windows bring at once and twice the stated jitter; nothing if no job is gated."""
    result = allocate(instance, time_limit=60, stretch_limit="2%", threads=1)
    plan = Plan.of(instance, result.schedule)
    outcomes = []
    fresh = range(_FIRST_SEED, _FIRST_SEED + seeds)
    for network, noise in product(("fair", "tcp"), (1.0, 2.0)) if plan.periods else ():
        simulator = PlanSimulator(
            instance, fresh, network=network, jitter_factor=noise, periods=400
        )
        free, gated = (simulator.replicate(each) for each in (Plan(instance.unshifted), plan))
        losses = gated / free - 1
        width = stats.t.ppf(0.95, seeds - 1) / math.sqrt(seeds)
        loss = float((losses.mean(axis=0) + width * losses.std(axis=0, ddof=1)).max())
        outcomes.append(_Outcome(network, noise, float(free.mean()), float(gated.mean()), loss))
    return outcomes


@benchmark("Are windows harmless at the jitter that jobs state, and at twice of it?")
def jitter(small: bool) -> Iterator[Figure]:
    """Solve the cases of the test bed with a stretch limit of 2 %, and count jobs that lose 1 %."""
    names = ["pair-80-36-38"] if small else None
    cases = [case.instance() for case in read_cases(STORED, names)]
    rows = []
    with ProcessPoolExecutor(_PROCESSES) as pool:
        for share in (0.005,) if small else (0.005, 0.01, 0.02, 0.03, 0.05, 0.1):
            stated = [
                case.replace(
                    jobs=tuple(job.model_copy(update={"jitter": share}) for job in case.jobs)
                )
                for case in cases
            ]
            outcomes = chain.from_iterable(pool.map(partial(_case, 2 if small else 12), stated))
            table = pd.DataFrame(outcomes, columns=_Outcome._fields)
            for (network, noise), gated in table.groupby(["network", "noise"]):
                row = {
                    "jitter": share,
                    "network": network,
                    "times jitter": noise,
                    "gated cases": len(gated),
                    "free": gated["free"].mean(),
                    "gated": gated["gated"].mean(),
                    "cases with harm": int((gated["loss"] > _HARM).sum()),
                    "largest upper limit": gated["loss"].max(),
                }
                rows.append(row)
                what = f"{share:.1%} x {noise:g}, {network}"
                yield Figure(f"{what}: free", row["free"], "")
                yield Figure(f"{what}: gated", row["gated"], f"of {len(gated)} cases")
                yield Figure(f"{what}: cases with harm", row["cases with harm"], "", "<= 0")
    if not small:
        RESULTS.mkdir(exist_ok=True)
        pd.DataFrame(rows).round(4).to_csv(RESULTS / "jitter.csv", index=False)
