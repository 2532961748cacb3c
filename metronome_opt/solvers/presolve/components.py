"""Components: jobs that share links, directly or through others, and nothing with the rest.

Unlike blocks (`split`) they share no job, so objectives of single jobs, such as `wait`, add up over
them as well.
"""

from __future__ import annotations

import networkx as nx

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.presolve.blocks import restrict


def components(instance: Instance) -> tuple[Instance, ...]:
    """Return the components of an instance; a job without links is one by itself."""
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
