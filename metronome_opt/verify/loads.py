"""Lower bounds that need no proof in a file: loads of links show them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify.evaluation import ScheduledJob, longest_stretch


def load_bound(instance: Instance, schedule: Schedule) -> Fraction | None:
    """Return what loads of links prove of the first objective; None if they say nothing of it.

    Unserved bandwidth is convex in demand, so that in the mean it is at least that of the mean
    demand. A job that is stretched sends no less in an iteration, which takes longer. Nothing is
    known of a cushion.
    """
    name = schedule.primary_objective
    if name not in ("contention", "latency"):
        return None
    volumes = {
        job.name: sum(
            n * rate for _, n, rate in ScheduledJob(job, 0, 0, schedule.cushion_slots).pattern
        )
        for job in instance.jobs
    }

    def means(link: str) -> Iterator[tuple[Job, Fraction]]:
        for job in (instance.jobs[index] for index in instance.jobs_on[link]):
            longest = job.period + longest_stretch(instance, job, schedule.stretch_limit)
            yield job, Fraction(job.links[link] * volumes[job.name], longest)

    total = Fraction(0)
    for link in instance.links:
        weighed = [
            (job.weight if name == "contention" else 1, mean) for job, mean in means(link.name)
        ]
        excess = sum((mean for _, mean in weighed), Fraction(-link.capacity))
        for weight, mean in sorted(weighed):  # the lightest first
            taken = min(mean, max(excess, Fraction(0)))
            total += weight * taken
            excess -= taken
    if name == "contention" or not total:
        return total
    traffic = (
        Fraction(flows * volumes[job.name], job.period)
        for job in instance.jobs
        for flows in job.links.values()
    )
    return total / sum(traffic)
