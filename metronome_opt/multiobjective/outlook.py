"""What stretches promise before anything is solved: a lower bound of the contention, and a guess.

Contention is supermodular in the set of jobs: what a job adds never falls as others are there. Take
away what each job costs by itself, and sets A and B that have one job in common cost together at
least what each of them costs. So the pairs along a tree that spans the jobs of a link cost together
no more than the link; a tree of the most expensive pairs is as good as any. That is one bound of a
link; the other is what it costs because of its load alone (`solvers/load.py`). Both are least where
all is stretched as far as it may be, or looked up for the cheapest stretches that may be.

The guess is the sum of all pairs. It is neither above nor below: more than two bursts may meet, and
pairs may not agree about their offsets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from metronome_opt.instance import Instance, Job, Link
from metronome_opt.multiobjective.pairs import Pair, pair_on, shared_links, single_cost

Box = Sequence[tuple[int, int]]  # per job the least and the most stretch
Floats = NDArray[np.float64]


class Outlook:
    """What is known of some jobs.

    Parameters
    ----------
    instance
        The jobs, in the order in which boxes have them.
    stopped
        Whether to leave out what is not known yet.

    Attributes
    ----------
    guesses
        Per pair of jobs that may cost each other something, both ways round: what they do, shape
        (stretches of the one, stretches of the other).
    """

    def __init__(self, instance: Instance, *, stopped: Callable[[], bool]) -> None:
        self._jobs = instance.jobs
        self._links = [link for link in instance.links if _is_tight(instance, link)]
        self._whole: dict[tuple[int, int], Pair] = {}
        self._on: dict[str, dict[tuple[int, int], Pair]] = {link.name: {} for link in self._links}
        self.guesses: dict[tuple[int, int], Floats] = {}
        for (i, one), (j, other) in itertools.combinations(enumerate(self._jobs), 2):
            links = shared_links(instance, one, other)
            whole = pair_on(one, other, links, stopped) if links else None
            if whole is None:
                continue
            self._whole[i, j] = whole
            values = np.array([float(value) for value in whole.values])
            self.guesses[i, j] = values[whole.ranks]
            self.guesses[j, i] = self.guesses[i, j].T
            for link in links:
                alone = whole if len(links) == 1 else pair_on(one, other, [link], stopped)
                if alone is not None:
                    self._on[link.name][i, j] = alone

    def floor(self, box: Box) -> Fraction:
        """Return a lower bound of the contention at all stretches of a box."""
        alone = {
            link.name: sum(
                (
                    Fraction(single_cost(job, link), job.period + most)
                    for job, (_, most) in zip(self._jobs, box, strict=True)
                    if link.name in job.links
                ),
                Fraction(0),
            )
            for link in self._links
        }
        apart = sum(
            (
                max(self._load(link, box), alone[link.name] + _tree(self._on[link.name], box))
                for link in self._links
            ),
            Fraction(0),
        )
        return max(apart, sum(alone.values(), Fraction(0)) + _tree(self._whole, box))

    def guess(self, stretch: Sequence[int]) -> float:
        """Return about what the contention is at some stretches, but for what jobs cost alone."""
        return sum(
            float(guess[stretch[i], stretch[j]]) for (i, j), guess in self.guesses.items() if i < j
        )

    def _load(self, link: Link, box: Box) -> Fraction:
        """Return what a link costs because of its load alone, however it is spread."""
        users = [
            (job.weight, Fraction(job.links[link.name] * job.volume, job.period + most))
            for job, (_, most) in zip(self._jobs, box, strict=True)
            if link.name in job.links
        ]
        total, before = Fraction(0), 0
        for weight in sorted({weight for weight, _ in users}):
            demand = sum(mean for other, mean in users if other >= weight)
            total += (weight - before) * max(Fraction(0), demand - link.capacity)
            before = weight
        return total


def _is_tight(instance: Instance, link: Link) -> bool:
    users: list[Job] = [instance.jobs[index] for index in instance.jobs_on[link.name]]
    return sum(job.peak * job.links[link.name] for job in users) > link.capacity


def _tree(pairs: Mapping[tuple[int, int], Pair], box: Box) -> Fraction:
    """Return what the pairs along a most expensive spanning forest cost at least."""
    slices = [slice(least, most + 1) for least, most in box]
    worth = {(i, j): pair.least(slices[i], slices[j]) for (i, j), pair in pairs.items()}
    joined = nx.utils.UnionFind(range(len(box)))
    total = Fraction(0)
    for i, j in sorted((pair for pair in worth if worth[pair]), key=lambda pair: -worth[pair]):
        if joined[i] != joined[j]:
            joined.union(i, j)
            total += worth[i, j]
    return total
