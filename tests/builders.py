"""Instances that several tests share: worked out by hand, and drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.iteration import Burst, Iteration


def job(name: str, period: int, *bursts: tuple[int, int, int], **fields: Any) -> Job:
    """Return a job with `bursts` (start, length, rate) that uses "link" once if not said else."""
    phases = tuple(Phase(start=s, length=m, rate=b) for s, m, b in bursts)
    return Job(name=name, period=period, phases=phases, **{"links": {"link": 1}, **fields})


def iteration_of(
    pauses: Sequence[Fraction | int], volumes: Sequence[Fraction | int], rates: Sequence[Fraction]
) -> Iteration:
    """Return the iteration of some pauses, volumes in Mbit/s * ms, and rates in Mbit/s."""
    bursts = (
        Burst(Fraction(pause), Fraction(volume) / 1000, Fraction(rate))
        for pause, volume, rate in zip(pauses, volumes, rates, strict=False)
    )
    return Iteration(tuple(bursts), Fraction(pauses[-1]))


def network(*jobs: Job, capacity: int = 100, **others: int) -> Instance:
    """Return an instance with a link called "link" and further links by name and capacity."""
    links = {"link": capacity, **others}
    return Instance(
        name="by-hand",
        slot_ms=5,
        links=tuple(Link(name=name, capacity=value) for name, value in links.items()),
        jobs=jobs,
    )


def two_jobs() -> Instance:
    """Return two bursts of 8 slots that meet when unshifted; they fit side by side in 20."""
    burst, links = (0, 8, 40_000), {"node-0": 1}
    return Instance(
        name="two-jobs",
        slot_ms=5,
        links=(Link(name="node-0", capacity=50_000),),
        jobs=(
            job("a", 40, burst, weight=4, links=links, jitter=0.01),
            job("b", 20, burst, links=links, jitter=0.01),
        ),
    )


def schedule(instance: str, offsets: Mapping[str, int], **stated: Any) -> Schedule:
    """Return a feasible schedule of the instance of a name that states nothing else."""
    fields: dict[str, Any] = {
        "stretch": {},
        "status": Status.FEASIBLE,
        "objectives": {},
        "lower_bound": None,
        "solver": "by hand",
        "seed": None,
        "runtime_s": 0.0,
    }
    return Schedule(instance=instance, offsets=offsets, **{**fields, **stated})


def tangle(
    jobs: int,
    links: int,
    seed: int,
    *,
    periods: tuple[int, ...],
    lengths: tuple[int, int],
    each: int = 2,
) -> Instance:
    """Return jobs of one burst, no two of which fit on a link at once.

    Parameters
    ----------
    periods, lengths
        What periods are drawn from, and the shortest and the longest burst, in slots.
    each
        How many links a job is on, if there are so many.
    """
    draw = random.Random(seed)
    names = [f"link-{index}" for index in range(links)]
    return Instance(
        name="tangle",
        slot_ms=5,
        links=tuple(Link(name=name, capacity=100) for name in names),
        jobs=tuple(
            Job(
                name=f"job-{index}",
                period=draw.choice(periods),
                weight=draw.choice((1, 2, 4)),
                phases=(Phase(start=0, length=draw.randint(*lengths), rate=draw.randint(55, 95)),),
                links=dict.fromkeys(draw.sample(names, min(links, each)), 1),
            )
            for index in range(jobs)
        ),
    )


def hard_instance(jobs: int = 12, links: int = 4) -> Instance:
    """Return an instance that takes more than a second, unless it is made smaller."""
    return tangle(jobs, links, 3, periods=(40, 50, 100), lengths=(9, 17))


HARD = hard_instance()
HARMLESS = network(
    job("a", 6, (0, 3, 60), weight=4, current_offset=1),
    job("b", 6, (1, 2, 60), ready=2),
    job("c", 4, (0, 1, 50)),
)


def evaluation_of(result: Result) -> Evaluation:
    """Return the evaluation of a result whose hyperperiods are within the limit."""
    assert result.evaluation is not None
    return result.evaluation


def fault_of(make: Callable[[], object]) -> str:
    """Return the error of a function that refuses its input, in one line."""
    with pytest.raises(InputError) as caught:
        make()
    text = str(caught.value)
    assert "\n" not in text
    return text
