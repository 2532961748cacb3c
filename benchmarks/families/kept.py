"""`kept`: jobs that fit by construction, and jobs that do not because of three of them."""

from __future__ import annotations

import random

from benchmarks.families.family import Family, Parameters, cases
from metronome_opt.problem.instance import Instance, Job, Link, Phase

CAPACITY = 50_000  # Mbit/s
WHOLE = 240  # slots; a multiple of all periods
PERIODS = (40, 60, 80, 120, 240)
RATES = {"planted": (1.0,), "clause": (1.0,), "mixture": (0.35, 0.5, 1.0)}  # of the capacity
_TRIES = 200


def generate(name: str, seed: int, *, jobs: int, links: int, kind: str) -> Instance:
    """Return jobs of one or two bursts, each on one to three links.

    Every job is drawn until it fits beside those before it at some offset, which is then forgotten:
    at those offsets no link is ever asked for too much. The first three jobs of a ``clause`` have
    one period P, bursts between P / 3 and P / 2, a link of its own each, and one that is theirs:
    any two of them fit there, all three never do, and without one of them the rest fits.

    Parameters
    ----------
    name, seed
        The same seed gives the same instance.
    jobs, links
        How many.
    kind
        ``planted`` where a burst takes the whole link; ``mixture`` where some fit beside one
        another; ``clause`` for a planted instance that three jobs spoil.
    """
    draw = random.Random(seed)
    names = [f"link-{index}" for index in range(links)]
    demand = {link: [0] * WHOLE for link in names}
    found: list[Job] = []
    period = draw.choice(PERIODS)
    while len(found) < jobs:
        label = f"job-{len(found)}"
        if kind == "clause" and len(found) < 3:
            job = _long_job(draw, label, period, names[len(found) % links])
        else:
            job = _job(draw, label, names, RATES[kind])
        offsets = draw.sample(range(job.period), min(_TRIES, job.period))
        if any(_put(demand, job, offset) for offset in offsets):
            found.append(job)
    if kind == "clause":
        names.append("clause")
        found[:3] = [
            job.model_copy(update={"links": {**job.links, "clause": 1}}) for job in found[:3]
        ]
    draw.shuffle(found)
    made = tuple(Link(name=link, capacity=CAPACITY) for link in names)
    return Instance(name=name, slot_ms=5, links=made, jobs=tuple(found))


def _job(draw: random.Random, name: str, links: list[str], rates: tuple[float, ...]) -> Job:
    period = draw.choice(PERIODS)
    count = draw.randint(1, 2)
    longest = period // (4 * count)
    rate = round(CAPACITY * draw.choice(rates))
    starts = (0, period // 2)
    return Job(
        name=name,
        period=period,
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
        phases=tuple(
            Phase(start=start, length=draw.randint(longest // 3, longest), rate=rate)
            for start in starts[:count]
        ),
        links=dict.fromkeys(draw.sample(links, draw.randint(1, min(3, len(links)))), 1),
    )


def _long_job(draw: random.Random, name: str, period: int, link: str) -> Job:
    """Return a job of one burst of more than a third of its period."""
    return Job(
        name=name,
        period=period,
        weight=draw.choice((1, 2, 4)),
        ready=draw.randrange(period),
        phases=(Phase(start=0, length=draw.randint(period // 3 + 1, period // 2), rate=CAPACITY),),
        links={link: 1},
    )


def _put(demand: dict[str, list[int]], job: Job, offset: int) -> bool:
    """Add a job to the demand if it fits at an offset, and return whether it did."""
    asked = [
        ((begin + offset + slot) % WHOLE, phase.rate)
        for begin in range(0, WHOLE, job.period)
        for phase in job.phases
        for slot in range(phase.start, phase.end)
    ]
    if any(demand[link][slot] + rate > CAPACITY for link in job.links for slot, rate in asked):
        return False
    for link in job.links:
        for slot, rate in asked:
            demand[link][slot] += rate
    return True


def _sizes(sizes: tuple[tuple[int, int], ...]) -> list[tuple[str, Parameters]]:
    return [
        (f"{kind}-{jobs}x{links}", {"jobs": jobs, "links": links, "kind": kind})
        for kind in RATES
        for jobs, links in sizes
    ]


FAMILY = Family(
    name="kept",
    about="6 to 36 jobs that fit by construction, alone or beside one another, or all but three",
    version=1,
    time_limit_s=60,
    cases=cases(
        "kept",
        generate,
        test=_sizes(((6, 3), (12, 4), (24, 8), (36, 12))),
        tune=_sizes(((8, 3), (18, 6))),
    ),
)
