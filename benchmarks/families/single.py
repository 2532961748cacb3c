"""`single`: one link, two to eight jobs."""

from __future__ import annotations

import random

from benchmarks.families.bursts import bursts, mean_rate
from benchmarks.families.family import Family, Parameters, cases
from metronome_opt.problem.instance import Instance, Job, Link

CAPACITY = 50_000  # Mbit/s
PERIODS = (24, 30, 40, 48, 60, 80, 120, 240)  # slots; their common multiple is 240
WEIGHTS = {"equal": (1,), "mixed": (1, 2, 4)}


def generate(name: str, seed: int, *, jobs: int, load_percent: int, weights: str) -> Instance:
    """Return jobs that share one link.

    A job is busy for one to two times its even share of the load, in one to three bursts of rates
    that differ by up to a factor of two. All rates are then scaled so that the link has the load
    asked for; jobs are drawn anew until none sends faster than the link alone.

    Parameters
    ----------
    name, seed
        The same seed gives the same instance.
    jobs
        How many.
    load_percent
        Mean demand over capacity.
    weights
        ``equal``, or ``mixed`` for 1, 2 and 4.
    """
    draw = random.Random(seed)
    while True:
        drawn = [_job(draw, index, jobs, load_percent, weights) for index in range(jobs)]
        scaled = _scale(drawn, load_percent)
        if max(job.peak for job in scaled) <= CAPACITY:
            link = Link(name="link", capacity=CAPACITY)
            return Instance(name=name, slot_ms=5, links=(link,), jobs=tuple(scaled))


def _job(draw: random.Random, index: int, jobs: int, load_percent: int, weights: str) -> Job:
    period = draw.choice(PERIODS)
    count = draw.randint(1, 3)
    share = period * load_percent / (100 * jobs)  # slots busy at full rate
    busy = round(draw.uniform(share, min(2 * share, 0.85 * period)))
    busy = min(max(busy, count), period - count)
    rates = [draw.randrange(CAPACITY // 2, CAPACITY) for _ in range(count)]
    return Job(
        name=f"job-{index}",
        period=period,
        weight=draw.choice(WEIGHTS[weights]),
        ready=draw.randrange(period),
        phases=bursts(draw, period, busy, rates),
        links={"link": 1},
    )


def _scale(jobs: list[Job], load_percent: int) -> list[Job]:
    """Multiply all rates so that the link has the load; they stay whole Mbit/s."""
    factor = load_percent * CAPACITY / (100 * sum(mean_rate(job) for job in jobs))
    return [
        job.model_copy(
            update={
                "phases": tuple(
                    phase.model_copy(update={"rate": round(phase.rate * factor)})
                    for phase in job.phases
                )
            }
        )
        for job in jobs
    ]


_TEST = ((60, "mixed"), (85, "equal"), (110, "mixed"))
_TUNE = ((75, "equal"), (100, "mixed"))  # load, weights


def _sizes(rows: tuple[tuple[int, str], ...]) -> list[tuple[str, Parameters]]:
    return [
        (str(jobs), {"jobs": jobs, "load_percent": load, "weights": weights})
        for jobs in range(2, 9)
        for load, weights in rows
    ]


FAMILY = Family(
    name="single",
    about="2 to 8 jobs on one link, 1 to 3 bursts each, load 0.6 to 1.1",
    version=1,
    time_limit_s=60,
    cases=cases("single", generate, test=_sizes(_TEST), tune=_sizes(_TUNE)),
)
