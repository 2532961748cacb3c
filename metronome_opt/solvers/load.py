"""What a link costs because of its load alone, whenever its jobs burst."""

from __future__ import annotations

from fractions import Fraction

from metronome_opt.kernels.tables import Compiled, SharedLink


def load_bound(compiled: Compiled, link: SharedLink) -> Fraction:
    """Return a lower bound of the contention of a link, in weight * Mbit/s.

    What is unserved is convex in demand, so in each layer it is on average at least what it would
    be if the demand were spread evenly (Jensen's inequality).
    """
    jobs = compiled.instance.jobs
    capacity = link.capacity * compiled.unit
    total = Fraction(0)
    for layer, price in enumerate(link.prices):
        demand = sum(
            Fraction(flows * jobs[job].volume, jobs[job].period)
            for job, flows, class_ in zip(link.jobs, link.flows, link.classes, strict=True)
            if class_ >= layer
        )
        total += price * max(Fraction(0), demand - capacity)
    return total
