"""`weights`: jobs of weights 1, 10 and 100 contend for the same links."""

from __future__ import annotations

import random

from benchmarks.families.dense import tangle
from benchmarks.families.family import Family, cases
from metronome_opt.problem.instance import Instance

PERIODS = (30, 40, 60, 80, 120, 240)  # slots; their common multiple is 240
WEIGHTS = (1, 10, 100)
LOAD_PERCENT = (80, 105)


def generate(name: str, seed: int, *, jobs: int, links: int) -> Instance:
    """Return jobs as in `dense`, the weights shared out evenly, loads 0.8 to 1.05."""
    draw = random.Random(seed)
    weights = [WEIGHTS[index % len(WEIGHTS)] for index in range(jobs)]
    draw.shuffle(weights)
    return tangle(draw, name, PERIODS, weights, links, LOAD_PERCENT)


_SIZES = {6: 4, 8: 5, 11: 6, 14: 8}  # jobs: links


def _sizes(copies: int) -> list[tuple[str, dict[str, int]]]:
    return [
        (f"{jobs}x{links}", {"jobs": jobs, "links": links})
        for jobs, links in _SIZES.items()
        for _ in range(copies)
    ]


FAMILY = Family(
    name="weights",
    about="6 to 14 jobs of weights 1, 10 and 100 over 4 to 8 links, load 0.8 to 1.05",
    version=1,
    time_limit_s=30,
    cases=cases("weights", generate, test=_sizes(2), tune=_sizes(1)),
)
