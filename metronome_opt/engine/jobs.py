"""Running jobs: their iterations and windows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.scenario.iteration import Iteration


def isolated_iteration(instance: Instance, job: Job) -> Iteration:
    """Return the iteration of a job that has its links to itself.

    Longer than its period if its own flows do not fit on a link.
    """
    capacities = {link.name: link.capacity for link in instance.links}
    widest = [Fraction(capacities[link], flows) for link, flows in job.links.items()]
    return Iteration.of_job(job, instance.slot_ms).slowed_to(min(widest, default=None))


@dataclass(frozen=True)
class EngineJob:
    """A job that may enter the engine."""

    name: str
    # its iteration, and its priority
    pattern: Iteration
    weight: int = 1
    iterations: int | None = None  # number of iterations; None for no end
    max_links: int = 1  # maximum number of links that it crosses
    traffic_class: int = 0  # links serve higher ones first, however jobs of one class share them

    @classmethod
    def of_instance(cls, instance: Instance, iterations: int | None = None) -> list[Self]:
        """Return all jobs of an instance with the given number of iterations."""
        return [
            cls(
                job.name,
                Iteration.of_job(job, instance.slot_ms),
                job.weight,
                iterations,
                len(job.links),
            )
            for job in instance.jobs
        ]


@dataclass(frozen=True)
class WindowSchedule:
    """Planned beginnings of the iterations of a job, or of its bursts.

    Attributes
    ----------
    tolerance_ms
        Deviation that does not cause re-phasing. Of windows of bursts: deviation of the job's clock
        that does not cause a correction.
    bursts_ms
        When each burst is due, from the beginning of the iteration: bursts wait for their times,
        and iterations begin at once. Empty for iterations that wait, and bursts that do not. See
        `engine.fluid.windows`.
    """

    period_ms: float  # from one beginning to the next
    tolerance_ms: float = 0.0
    group: int = 0  # jobs of one group wait for one another if iterations have windows
    bursts_ms: tuple[float, ...] = ()
