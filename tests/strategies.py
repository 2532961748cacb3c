"""Small random instances for property tests, and the assignments that belong to them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance, Job, Link, Phase

WEIGHTS = (1, 2, 4)
RATES = (10, 30, 50, 60, 100)
CAPACITIES = (50, 70, 100)
PERIODS = (1, 2, 3, 4, 6)


@st.composite
def phases(
    draw: st.DrawFn, period: int, most: int = 2, rates: Sequence[int] = RATES
) -> tuple[Phase, ...]:
    """Draw up to `most` bursts that lie in the period and do not overlap, in any order."""
    count = draw(st.integers(1, min(most, period)))
    bursts = []
    begin = 0
    for left in reversed(range(count)):  # bursts still to come, one slot each at least
        start = draw(st.integers(begin, period - 1 - left))
        length = draw(st.integers(1, period - left - start))
        bursts.append(Phase(start=start, length=length, rate=draw(st.sampled_from(rates))))
        begin = start + length
    return tuple(draw(st.permutations(bursts)))


@st.composite
def jobs(
    draw: st.DrawFn,
    name: str,
    links: Sequence[str],
    *,
    max_period: int = 8,
    max_phases: int = 2,
    max_flows: int = 3,
    max_stretch: int = 0,
    fixed: bool = True,
    weights: Sequence[int] = WEIGHTS,
) -> Job:
    """Draw a job called `name` over some, all or none of `links`."""
    period = draw(st.integers(1, max_period))
    stretch = draw(st.integers(0, max_stretch))
    used = draw(st.lists(st.sampled_from(links), unique=True)) if links else []
    return Job(
        name=name,
        period=period,
        weight=draw(st.sampled_from(weights)),
        ready=draw(st.integers(0, 2 * period)),
        max_stretch=stretch,
        phases=draw(phases(period, max_phases)),
        links={link: draw(st.integers(1, max_flows)) for link in used},
        fixed_offset=draw(st.none() | st.integers(0, period - 1)) if fixed else None,
        current_offset=draw(st.none() | st.integers(0, period + stretch - 1)),
    )


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    max_jobs: int = 3,
    max_links: int = 2,
    max_period: int = 8,
    max_phases: int = 2,
    max_flows: int = 3,
    max_stretch: int = 0,
    fixed: bool = True,
    weights: Sequence[int] = WEIGHTS,
) -> Instance:
    """Draw a valid instance.

    Periods and weights differ, bursts have rates of their own; there are links without users, jobs
    without links, fixed and current offsets.

    Parameters
    ----------
    max_jobs, max_links, max_period, max_phases, max_flows, max_stretch
        Largest numbers; the smallest are 1 job, 0 links, period 1, 1 burst, 1 flow, stretch 0.
    fixed
        Whether some jobs may have a fixed offset.
    weights
        What weights are drawn from.
    """
    links = [
        Link(name=f"link-{index}", capacity=draw(st.sampled_from(CAPACITIES)))
        for index in range(draw(st.integers(0, max_links)))
    ]
    count = draw(st.integers(1, max_jobs))
    return Instance(
        name="random",
        slot_ms=5,
        links=tuple(links),
        jobs=tuple(
            draw(
                jobs(
                    f"job-{index}",
                    [link.name for link in links],
                    max_period=max_period,
                    max_phases=max_phases,
                    max_flows=max_flows,
                    max_stretch=max_stretch,
                    fixed=fixed,
                    weights=weights,
                )
            )
            for index in range(count)
        ),
    )


@st.composite
def crowded(
    draw: st.DrawFn,
    *,
    min_jobs: int = 2,
    max_jobs: int = 4,
    max_links: int = 3,
    most_schedules: int = 1500,
    fixed: bool = True,
) -> Instance:
    """Draw an instance on whose links jobs meet, small enough to look at all its schedules.

    Most links can be overloaded, few cannot. Bursts may fill the period or follow one another
    without a break, at the same rate or another; weights may be 0.

    Parameters
    ----------
    most_schedules
        At most that many combinations of offsets, fixed ones not counted as fixed.
    """
    links = [
        Link(name=f"link-{index}", capacity=draw(st.sampled_from((*CAPACITIES, 500))))
        for index in range(draw(st.integers(1, max_links)))
    ]
    made = []
    for index in range(draw(st.integers(min_jobs, max_jobs))):
        period = draw(st.sampled_from([each for each in PERIODS if each <= most_schedules]))
        most_schedules //= period
        names = st.sampled_from([link.name for link in links])
        made.append(
            Job(
                name=f"job-{index}",
                period=period,
                weight=draw(st.sampled_from((0, 1, 1, 2, 4))),
                phases=draw(phases(period, 3)),
                links={
                    link: draw(st.sampled_from((1, 1, 2)))
                    for link in draw(st.lists(names, unique=True, min_size=index % 4 > 0))
                },
                fixed_offset=draw(st.none() | st.none() | st.integers(0, period - 1))
                if fixed
                else None,
            )
        )
    return Instance(name="crowded", slot_ms=5, links=tuple(links), jobs=tuple(made))


def tight(seed: int) -> Instance:
    """Make five jobs that can hardly avoid each other, the first one fixed.

    Periods are long enough for branching by contacts to be worth it, optima are seldom reached by
    chance, and all schedules can still be looked at.
    """
    draw = random.Random(seed)
    names = [f"link-{index}" for index in range(draw.randint(1, 3))]
    return Instance(
        name=f"tight-{seed}",
        slot_ms=1,
        links=tuple(Link(name=name, capacity=100) for name in names),
        jobs=tuple(
            Job(
                name=f"job-{index}",
                period=draw.choice((24, 24, 12)),
                weight=draw.choice((1, 2, 3, 5)),
                phases=(Phase(start=0, length=draw.randint(1, 11), rate=draw.randint(35, 95)),),
                links=dict.fromkeys(draw.sample(names, min(len(names), draw.choice((1, 2)))), 1),
                fixed_offset=None if index else 0,
            )
            for index in range(5)
        ),
    )


@st.composite
def offsets_of(draw: st.DrawFn, instance: Instance) -> dict[str, int]:
    """Draw a valid offset for each job that is not stretched."""
    return {
        job.name: draw(st.integers(0, job.period - 1))
        if job.fixed_offset is None
        else job.fixed_offset
        for job in instance.jobs
    }


@st.composite
def assigned(
    draw: st.DrawFn, of: st.SearchStrategy[Instance] | None = None
) -> tuple[Instance, dict[str, int]]:
    """Draw an instance, from `of` if given, and valid offsets for it."""
    instance = draw(instances() if of is None else of)
    return instance, draw(offsets_of(instance))
