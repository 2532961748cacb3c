"""What happens today when start times are a matter of chance: one random offset per job."""

from __future__ import annotations

import random

from metronome_opt.solvers.search import Search


def run(search: Search) -> None:
    """Offer one schedule drawn uniformly, by the seed."""
    generator = random.Random(search.seed)  # noqa: S311 (not for cryptography)
    offsets = [
        generator.randrange(job.period) if job.fixed_offset is None else job.fixed_offset
        for job in search.instance.jobs
    ]
    search.offer(offsets, "random")
