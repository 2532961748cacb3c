"""`dense`: jobs and links tangled at random, every link loaded nearly to its capacity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from benchmarks.families.bursts import bursts, mean_rate
from benchmarks.families.family import Family, cases
from metronome_opt.problem.instance import Instance, Job, Link

CAPACITY = 50_000  # Mbit/s
PERIODS = (40, 50, 100, 200)  # slots; their common multiple is 200
LOAD_PERCENT = (80, 95)
JOBS_PER_LINK = (3, 6)


def generate(name: str, seed: int, *, jobs: int, links: int) -> Instance:
    """Return jobs of equal weight, 3 to 6 of them on each link, loads 0.8 to 0.95."""
    draw = random.Random(seed)
    return tangle(draw, name, PERIODS, [1] * jobs, links, LOAD_PERCENT)


def tangle(
    draw: random.Random,
    name: str,
    periods: Sequence[int],
    weights: Sequence[int],
    links: int,
    load_percent: tuple[int, int],
) -> Instance:
    """Return an instance whose links carry jobs drawn at random.

    A job is busy for 20 to 45 % of its period, in one or two bursts of 20 to 40 of the 50 Gbit/s
    of a link. A link takes first a job that has fewest links so far, then others at random, and
    is drawn anew until its load is in the range.

    Parameters
    ----------
    draw
        Where chance comes from.
    name
        Of the instance.
    periods
        What periods are drawn from, in slots.
    weights
        One for each job.
    links
        How many.
    load_percent
        Least and most mean demand over capacity of a link.
    """
    jobs = [_job(draw, index, periods, weight) for index, weight in enumerate(weights)]
    used: Counter[int] = Counter()
    members = []
    for _ in range(links):
        chosen = _members(draw, jobs, used, load_percent)
        used.update(chosen)
        members.append(chosen)
    names = [f"link-{index:02}" for index in range(links)]
    return Instance(
        name=name,
        slot_ms=5,
        links=tuple(Link(name=link, capacity=CAPACITY) for link in names),
        jobs=tuple(
            job.model_copy(
                update={
                    "links": {
                        link: 1 for link, on in zip(names, members, strict=True) if index in on
                    }
                }
            )
            for index, job in enumerate(jobs)
        ),
    )


def _job(draw: random.Random, index: int, periods: Sequence[int], weight: int) -> Job:
    period = draw.choice(periods)
    busy = draw.randint(period * 20 // 100, period * 45 // 100)
    rates = [draw.randrange(20_000, 40_001, 500) for _ in range(draw.randint(1, 2))]
    return Job(
        name=f"job-{index:02}",
        period=period,
        weight=weight,
        ready=draw.randrange(period),
        phases=bursts(draw, period, busy, rates),
        links={},
    )


def _members(
    draw: random.Random, jobs: Sequence[Job], used: Counter[int], load_percent: tuple[int, int]
) -> set[int]:
    """Draw the jobs of one link."""
    least, most = (percent * CAPACITY / 100 for percent in load_percent)
    fewest = min(used[index] for index in range(len(jobs)))
    rarest = [index for index in range(len(jobs)) if used[index] == fewest]
    while True:
        first = draw.choice(rarest)
        others = [index for index in range(len(jobs)) if index != first]
        chosen = {first, *draw.sample(others, draw.randint(*JOBS_PER_LINK) - 1)}
        if least <= sum(mean_rate(jobs[index]) for index in chosen) <= most:
            return chosen


_SIZES = {8: 6, 12: 10, 16: 13, 20: 16, 24: 19, 30: 24, 100: 80}  # jobs: links


def _sizes(copies: int) -> list[tuple[str, dict[str, int]]]:
    return [
        (str(jobs), {"jobs": jobs, "links": links})
        for jobs, links in _SIZES.items()
        for _ in range(copies)
    ]


FAMILY = Family(
    name="dense",
    about="8 to 100 jobs of equal weight over 0.8 times as many links, load 0.8 to 0.95",
    version=1,
    time_limit_s=30,
    cases=cases("dense", generate, test=_sizes(2), tune=_sizes(1)),
)
