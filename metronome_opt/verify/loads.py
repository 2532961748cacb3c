"""Lower bounds that need no proof in a file: loads of links show them."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify.evaluation import ScheduledJob, longest_stretch


def load_bound(instance: Instance, schedule: Schedule) -> Fraction | None:
    """Return what loads of links prove of the first objective; None if they prove nothing.

    Unserved bandwidth is convex in demand, so that its mean is at least that of the mean demand. A
    job that is stretched sends no less in an iteration, which takes longer. Nothing is known of a
    cushion.
    """
    name = schedule.primary_objective
    if name not in ("contention", "latency"):
        return None
    volumes = [ScheduledJob(job, 0, 0, schedule.cushion_slots).volume for job in instance.jobs]
    total = Fraction(0)
    for link in instance.links:
        means = []  # by weight, the lowest first: jobs of low weight are served last
        for index in instance.jobs_on[link.name]:
            job = instance.jobs[index]
            longest = job.period + longest_stretch(instance, job, schedule.stretch_limit)
            mean = Fraction(job.links[link.name] * volumes[index], longest)
            means.append((job.weight if name == "contention" else 1, mean))
        excess = sum((mean for _, mean in means), Fraction(-link.capacity))
        for weight, mean in sorted(means):
            unserved = min(mean, max(excess, Fraction(0)))
            total += weight * unserved
            excess -= unserved
    if name == "contention" or not total:
        return total
    return total / sum(
        Fraction(sum(job.links.values()) * volume, job.period)
        for job, volume in zip(instance.jobs, volumes, strict=True)
    )
