"""A lower bound of a block: the optima of its links, each solved as if it were alone."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.solvers import branch_bound, greedy
from metronome_opt.solvers.search import Search

_NODES = 20_000


def links_bound(search: Search) -> Fraction:
    """Return the sum over the links of each link's own bound, by branch and bound on it alone."""
    total = Fraction(0)
    instance = search.instance
    for link in instance.links:
        jobs = tuple(
            job.model_copy(update={"links": {link.name: job.links[link.name]}})
            for job in instance.jobs
            if link.name in job.links
        )
        alone = search.below(instance.replace(links=(link,), jobs=jobs))
        greedy.run(alone)
        branch_bound.prove(alone, most_nodes=_NODES)
        total += alone.bound or Fraction(0)
    return total
