"""`coprime`: periods with hardly a common divisor, so that hyperperiods are long."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from benchmarks.families.bursts import bursts
from benchmarks.families.family import Family, cases
from metronome_opt.problem.instance import Instance, Job, Link

CAPACITY = 50_000  # Mbit/s
PERIODS = (
    *(7 * factor for factor in (6, 8, 9, 12, 15, 20)),
    *(11 * factor for factor in (6, 7, 9, 10, 13, 14)),
    *(13 * factor for factor in (4, 6, 8, 9, 10, 14)),
    *(137, 211),
)  # slots
STRETCH_PERCENT = 5


def generate(name: str, seed: int, *, jobs: int, links: int, hyperperiod: int) -> Instance:
    """Return jobs whose periods are multiples of 7, 11 or 13, or the primes 137 and 211.

    A job is busy for 15 to 40 % of its period, in one or two bursts of 52 to 90 % of a link's
    capacity, and may be stretched by 5 % of its period, rounded up. It uses one link, or with a
    chance of one half a second one. Everything is drawn anew until each link has two jobs or more
    and the longest of the links' hyperperiods lies between half of `hyperperiod` and all of it.

    Parameters
    ----------
    name, seed
        The same seed gives the same instance.
    jobs, links
        How many.
    hyperperiod
        The most, in slots.
    """
    draw = random.Random(seed)
    names = [f"link-{index}" for index in range(links)]
    while True:
        periods = [draw.choice(PERIODS) for _ in range(jobs)]
        used = [
            draw.sample(names, 1 if draw.random() < 0.5 else min(2, links)) for _ in range(jobs)
        ]
        if _fits(names, periods, used, hyperperiod):
            break
    return Instance(
        name=name,
        slot_ms=1,
        links=tuple(Link(name=link, capacity=CAPACITY) for link in names),
        jobs=tuple(
            _job(draw, index, period, dict.fromkeys(sorted(on), 1))
            for index, (period, on) in enumerate(zip(periods, used, strict=True))
        ),
    )


def _fits(names: list[str], periods: list[int], used: list[list[str]], most: int) -> bool:
    users = [
        [period for period, on in zip(periods, used, strict=True) if name in on] for name in names
    ]
    longest = max(math.lcm(*shared) for shared in users)
    return min(len(shared) for shared in users) >= 2 and most // 2 <= longest <= most


def _job(draw: random.Random, index: int, period: int, links: Mapping[str, int]) -> Job:
    busy = draw.randint(period * 15 // 100, period * 40 // 100)
    rates = [draw.randrange(26_000, 45_001, 500) for _ in range(draw.randint(1, 2))]
    return Job(
        name=f"job-{index}",
        period=period,
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
        max_stretch=math.ceil(period * STRETCH_PERCENT / 100),
        phases=bursts(draw, period, busy, rates),
        links=links,
    )


_TEST = (
    (3, 1, 20_000),
    (4, 1, 100_000),
    (5, 1, 1_000_000),
    (5, 2, 100_000),
    (6, 2, 20_000),
    (6, 3, 100_000),
    (7, 3, 200_000),
    (8, 4, 500_000),
)  # jobs, links, hyperperiod
_TUNE = ((3, 1, 50_000), (5, 2, 50_000), (6, 3, 200_000), (8, 4, 100_000))


def _sizes(rows: tuple[tuple[int, int, int], ...]) -> list[tuple[str, dict[str, int]]]:
    return [
        (f"{jobs}x{links}", {"jobs": jobs, "links": links, "hyperperiod": hyperperiod})
        for jobs, links, hyperperiod in rows
    ]


FAMILY = Family(
    name="coprime",
    about="3 to 8 jobs of awkward periods over 1 to 4 links, hyperperiods up to 1,000,000 slots",
    version=1,
    time_limit_s=30,
    cases=cases("coprime", generate, test=_sizes(_TEST), tune=_sizes(_TUNE)),
)
