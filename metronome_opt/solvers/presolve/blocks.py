"""Blocks: parts of an instance that share at most a job can be solved separately.

Jobs and links form a bipartite graph. Where taking a job away disconnects it, the parts on either
side, each with the job, are solved separately and then rotated rigidly until they agree on the
offset of that job. Rotating a part changes nothing unless a fixed job holds it. A fixed job
connects nothing: it is a copy of itself in every part. Parts of one component that are held cannot
be rotated to agree; if there are two of them, the component stays whole.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from metronome_opt.problem.instance import Instance, Link
from metronome_opt.solvers.presolve.reductions import Offsets


@dataclass(frozen=True)
class Split:
    """An instance in blocks, whose links are disjoint; they may share free jobs."""

    instance: Instance
    blocks: tuple[Instance, ...]

    def join(self, parts: Sequence[Offsets]) -> dict[str, int]:
        """Join schedules of the blocks; the contention is the sum of theirs.

        A job that is in no block stays unshifted.
        """
        placed = dict(self.instance.unshifted)
        settled: set[str] = set()
        for index in self._order:
            free = [job for job in self.blocks[index].jobs if job.fixed_offset is None]
            shared = [job.name for job in free if job.name in settled]
            rotation = placed[shared[0]] - parts[index][shared[0]] if shared else 0
            for job in free:
                placed[job.name] = (parts[index][job.name] + rotation) % job.period
                settled.add(job.name)
        return placed

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The blocks, each one after those that it has to agree with."""
        free = [
            [job.name for job in block.jobs if job.fixed_offset is None] for block in self.blocks
        ]
        within = defaultdict(list)
        for index, names in enumerate(free):
            for name in names:
                within[name].append(index)
        # Blocks that share jobs with settled ones come first, then those that cannot be rotated.
        queue = [
            (1 if len(names) < len(self.blocks[index].jobs) else 2, index)
            for index, names in enumerate(free)
        ]
        heapq.heapify(queue)
        order: dict[int, None] = {}
        while queue:
            _, index = heapq.heappop(queue)
            if index not in order:
                order[index] = None
                for name in free[index]:
                    for other in within.pop(name, ()):
                        heapq.heappush(queue, (0, other))
        return tuple(order)


def split(instance: Instance) -> Split:
    """Cut an instance at its articulation jobs."""
    graph = _graph(instance)
    groups: list[set[str]] = []
    held = {link for job in instance.jobs if job.fixed_offset is not None for link in job.links}
    for component in nx.connected_components(graph):
        parts = _link_groups(graph.subgraph(component))
        if sum(not held.isdisjoint(links) for links in parts) > 1:
            parts = [set().union(*parts)]
        groups += parts
    order = {link.name: position for position, link in enumerate(instance.links)}
    ordered = sorted(sorted(order[link] for link in links) for links in groups)
    blocks = ([instance.links[position] for position in positions] for positions in ordered)
    return Split(instance, tuple(_part(instance, links) for links in blocks))


def components(instance: Instance) -> tuple[Instance, ...]:
    """Return the parts of an instance whose jobs share no link; a job without links is one.

    Unlike blocks they share no job, so objectives of single jobs, such as `wait`, add up over them.
    """
    graph = nx.Graph()
    for job in instance.jobs:
        graph.add_node(("job", job.name))
        graph.add_edges_from((("job", job.name), ("link", link)) for link in job.links)
    place = {job.name: index for index, job in enumerate(instance.jobs)}
    parts = []
    for component in nx.connected_components(graph):
        jobs = sorted((name for kind, name in component if kind == "job"), key=place.__getitem__)
        links = {name for kind, name in component if kind == "link"}
        if links:
            parts.append(restrict(instance, links))
        else:
            parts.append(instance.replace(links=(), jobs=(instance.job(jobs[0]),)))
    return tuple(sorted(parts, key=lambda part: place[part.jobs[0].name]))


def _graph(instance: Instance) -> nx.Graph:
    """Return the bipartite graph of the used links and the free jobs that use them."""
    graph = nx.Graph()
    for link, users in instance.jobs_on.items():
        if users:
            graph.add_node(("link", link))
    for job in instance.jobs:
        if job.fixed_offset is None:
            graph.add_edges_from((("job", job.name), ("link", link)) for link in job.links)
    return graph


def _link_groups(component: nx.Graph) -> list[set[str]]:
    """Return the links of each block: biconnected parts, joined where they share a link."""
    together = nx.utils.UnionFind(name for kind, name in component if kind == "link")
    for part in nx.biconnected_components(component):
        together.union(*(name for kind, name in part if kind == "link"))
    return [set(links) for links in together.to_sets()]


def restrict(instance: Instance, links: Collection[str]) -> Instance:
    """Return an instance of some of the links, and the jobs on them."""
    return _part(instance, [link for link in instance.links if link.name in links])


def _part(instance: Instance, links: Sequence[Link]) -> Instance:
    """Return an instance of some links in their order, in time linear in these links."""
    names = {link.name for link in links}
    jobs = []
    for index in sorted({index for name in names for index in instance.jobs_on[name]}):
        job = instance.jobs[index]
        flows = {link: count for link, count in job.links.items() if link in names}
        jobs.append(job.model_copy(update={"links": flows}))
    return instance.replace(links=tuple(links), jobs=tuple(jobs))
