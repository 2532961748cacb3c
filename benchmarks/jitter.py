"""Slots beside jitter: jobs of the test bed and fleets of one model, free and gated.

`solve` chooses for the jitter that jobs state; plans are simulated with seeds that it never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.figures import RESULTS
from benchmarks.registry import Figure, benchmark
from benchmarks.testbed.cases import STORED, read_cases
from metronome_opt import solve
from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import SAFE, Player, plays

_PROCESSES = 2
_FIRST_SEED = 5000
_HARM = 0.01
_PERIOD_MS, _BURST_MS = 302, 123  # VGG19 on 16 V100 (Muri, SIGCOMM 2022); a burst fills its link


def _with_jitter(instance: Instance, jitter: float) -> Instance:
    jobs = (job.model_copy(update={"jitter": jitter}) for job in instance.jobs)
    return instance.replace(jobs=tuple(jobs))


def _upper_limits(samples: Floats) -> Floats:
    """Return upper 95 % limits of the means of the first axis."""
    width = stats.t.ppf(0.95, len(samples) - 1) / math.sqrt(len(samples))
    return np.asarray(samples.mean(axis=0) + width * samples.std(axis=0, ddof=1))


class _Outcome(NamedTuple):
    """Mean slowdowns of the jobs of a case, and the upper limit of what one of them loses."""

    sharing: str
    noise: float
    free: float
    gated: float
    loss: float


def _case(seeds: int, instance: Instance) -> list[_Outcome]:
    """Return what slots come to at once and twice the stated jitter; nothing if no job is gated."""
    result = solve(instance, time_limit=60, stretch_limit="2%", workers=1)
    plan = Plan.of(instance, result.schedule)
    outcomes = []
    for sharing, noise in product(SAFE, (1.0, 2.0)) if plan.periods else ():
        fresh = plays(_FIRST_SEED, seeds, (sharing,))
        player = Player(instance, fresh, noise=noise, periods=400)
        free, gated = (player.by_play(each) for each in (Plan(instance.unshifted), plan))
        loss = float(_upper_limits(gated / free - 1).max())
        outcomes.append(_Outcome(sharing, noise, float(free.mean()), float(gated.mean()), loss))
    return outcomes


@benchmark("Are slots harmless at the jitter that jobs state, and at twice of it?")
def jitter(small: bool) -> Iterator[Figure]:
    """Solve the cases of the test bed with a stretch limit of 2 %, and count jobs that lose 1 %."""
    names = ["pair-80-36-38"] if small else None
    cases = [case.instance() for case in read_cases(STORED, names)]
    rows = []
    with ProcessPoolExecutor(_PROCESSES) as pool:
        for share in (0.005,) if small else (0.005, 0.01, 0.02, 0.03, 0.05, 0.1):
            stated = [_with_jitter(case, share) for case in cases]
            kept = list(filter(None, pool.map(partial(_case, 2 if small else 12), stated)))
            for outcomes in zip(*kept, strict=True):
                table = pd.DataFrame(outcomes)
                row = {
                    "jitter": share,
                    "sharing": outcomes[0].sharing,
                    "times jitter": outcomes[0].noise,
                    "gated cases": len(table),
                    "free": table.free.mean(),
                    "gated": table.gated.mean(),
                    "cases with harm": int((table.loss > _HARM).sum()),
                    "largest upper limit": table.loss.max(),
                }
                rows.append(row)
                what = f"{share:.1%} x {row['times jitter']:g}, {row['sharing']}"
                yield Figure(f"{what}: free", row["free"], "")
                yield Figure(f"{what}: gated", row["gated"], f"of {len(table)} cases")
                yield Figure(f"{what}: cases with harm", row["cases with harm"], "", "<= 0")
    _keep(rows, "jitter", small)


def fleet(jobs: int, apart: float, share: float, seed: int) -> Instance:
    """Return jobs of one model around a ring of as many racks, each in two of them.

    Parameters
    ----------
    apart
        The range of the periods, over their mean; they are drawn uniformly.
    share
        Jitter of each job.
    """
    draw = np.random.default_rng(seed)
    periods = _PERIOD_MS * (1 + apart * (draw.random(jobs) - 0.5))
    return Instance.from_dict(
        {
            "format": "metronome-instance/1",
            "name": f"fleet-{jobs}",
            "slot_ms": 1,
            "links": [{"name": f"uplink-{k}", "capacity": 1000} for k in range(jobs)],
            "jobs": [
                {
                    "name": f"job-{k}",
                    "period": round(period),
                    "ready": int(draw.integers(_PERIOD_MS)),
                    "phases": [
                        {"start": round(period) - _BURST_MS, "length": _BURST_MS, "rate": 1000}
                    ],
                    "links": {f"uplink-{k}": 1, f"uplink-{(k + 1) % jobs}": 1},
                    "jitter": share,
                }
                for k, period in enumerate(periods)
            ],
        }
    )


def _gains(of: tuple[int, float, float, int]) -> list[tuple[float, float, float]]:
    """Return mean slowdowns free and gated, and the share of gated jobs, by way of sharing."""
    instance = fleet(*of)
    plan = Plan.of(instance, solve(instance, time_limit=60, workers=1).schedule)
    values = []
    for sharing in SAFE:
        player = Player(instance, plays(_FIRST_SEED, 4, (sharing,)), periods=100)
        free = float(player.slowdowns(Plan(instance.unshifted)).mean())
        gated = float(player.slowdowns(plan).mean()) if plan.periods else free
        values.append((free, gated, len(plan.periods) / len(instance.jobs)))
    return values


@benchmark("What do slots bring where jobs of one model have equal, or nearly equal, periods?")
def fleets(small: bool) -> Iterator[Figure]:
    """Solve rings of jobs, two on each uplink, ten draws each."""
    aparts = (0.0, 0.005, 0.01, 0.03, 0.1)
    cells = [*product((4, 12), aparts, (0.0, 0.02, 0.05)), *product((40,), aparts, (0.02,))]
    cells, seeds = ([(4, 0.01, 0.02)], 2) if small else (cells, 10)
    rows = []
    with ProcessPoolExecutor(_PROCESSES) as pool:
        for jobs, apart, share in cells:
            draws = [(jobs, apart, share, seed) for seed in range(seeds)]
            by_seed = np.array(list(pool.map(_gains, draws)))
            for index, sharing in enumerate(SAFE):
                free, gated, of_all = by_seed[:, index].T
                gain = 100 * (1 - gated / free)
                width = stats.t.ppf(0.975, seeds - 1) * gain.std(ddof=1) / math.sqrt(seeds)
                lost, ideal = float((free - gated).mean()), float((free - 1).mean())
                row = {
                    "jobs": jobs,
                    "apart": apart,
                    "jitter": share,
                    "sharing": sharing,
                    "free": free.mean(),
                    "gated": gated.mean(),
                    "gain in %": gain.mean(),
                    "low": gain.mean() - width,
                    "high": gain.mean() + width,
                    "of ideal in %": 100 * lost / ideal,
                    "jobs in slots in %": 100 * of_all.mean(),
                }
                rows.append(row)
                what = f"{jobs} jobs, {apart:.1%} apart, jitter {share:.0%}, {sharing}"
                yield Figure(f"{what}: gain", row["gain in %"], "%")
                yield Figure(f"{what}: of ideal", row["of ideal in %"], "%")
    _keep(rows, "fleets", small)


def _keep(rows: Sequence[object], name: str, small: bool) -> None:
    """Write a table to `RESULTS`; that of a small run means nothing."""
    if not small:
        RESULTS.mkdir(exist_ok=True)
        pd.DataFrame(rows).round(4).to_csv(RESULTS / f"{name}.csv", index=False)
