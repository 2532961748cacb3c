"""Fewer links: those that can never be overloaded go, those that are alike become one."""

from __future__ import annotations

from collections import defaultdict

from metronome_opt.instance import Instance, Link
from metronome_opt.presolve.reduction import Offsets, Reduction


def simplify_links(instance: Instance) -> Reduction:
    """Drop links that can carry the peaks of all their jobs at once and merge equal ones.

    Links with the same capacity and the same flows of the same jobs are overloaded by the same
    amount at the same time. n of them become one link, called like the first, with n times the
    capacity and n times the flows, so that the contention stays as it is.
    """
    alike: dict[tuple[int, tuple[tuple[int, int], ...]], list[Link]] = defaultdict(list)
    for link in instance.links:
        users = tuple(
            (index, instance.jobs[index].links[link.name]) for index in instance.jobs_on[link.name]
        )
        if sum(instance.jobs[index].peak * flows for index, flows in users) > link.capacity:
            alike[link.capacity, users].append(link)
    links = []
    flows_of: list[dict[str, int]] = [{} for _ in instance.jobs]
    for (capacity, users), group in alike.items():
        first = group[0].name
        links.append(Link(name=first, capacity=capacity * len(group)))
        for index, flows in users:
            flows_of[index][first] = flows * len(group)
    jobs = tuple(
        job.model_copy(update={"links": flows})
        for job, flows in zip(instance.jobs, flows_of, strict=True)
    )
    return Reduction(instance.replace(links=tuple(links), jobs=jobs), _unchanged)


def _unchanged(offsets: Offsets) -> dict[str, int]:
    return dict(offsets)
