"""`static`: the thirteen models of the shipped paper-24, all there from the beginning."""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

from metronome_opt.errors import InputError
from metronome_opt.records import Positive
from metronome_opt.scenario.model import Work
from metronome_opt.simulate.draws.fragments import take_fragment
from metronome_opt.simulate.draws.generator import Generator, Priorities, Seconds, Span
from metronome_opt.simulate.draws.setup import Mix, Model, Setup, stream

ATTEMPTS = 1000
HYBRID_WORKERS = (4, 8)  # one or two replicas of GPT3


class Static(Generator):
    """One job of each of the thirteen models, with workers, priority and batch drawn.

    The jobs come in random order; each draws its workers, its priority and up to `racks` racks, and
    takes random nodes there, one a task, and further racks as long as it does not fit. GPT3 has 4
    or 8 workers.

    Parameters
    ----------
    placement
        ``given``: the jobs stay on the nodes that they drew, and their batches are drawn for the
        rate that they have there. ``chosen``: the same jobs with batches for the full rate of an
        interface; the policy places them.
    mix
        What batches are drawn from.
    racks
        The most that a job asks for.
    workers
        Least and most of all but GPT3.
    priorities
        Classes to draw from.
    seconds
        How long each job would take if the network were its own.
    """

    placement: Literal["given", "chosen"] = "given"
    mix: Mix = "any"
    racks: Positive = 4
    workers: Span = (2, 4)
    priorities: Priorities = (1, 2, 4)
    seconds: Seconds = 300.0

    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:
        """Return the jobs in the order of the shipped scenario."""
        draw, batches = stream(seed, "jobs"), stream(seed, "batches")
        for _ in range(ATTEMPTS):
            placed = self._place(setup, draw)
            if placed is not None:
                return tuple(
                    self._job(setup, name, model, placed[name], batches)
                    for name, model in setup.models.items()
                )
        raise InputError("workers: the cluster has no room for the jobs; use a larger one")

    def _place(
        self, setup: Setup, draw: random.Random
    ) -> dict[str, tuple[int, tuple[str, ...]]] | None:
        """Return priority and nodes of each job; None if one has no room."""
        free = Counter(dict.fromkeys(setup.cluster.node_names, setup.cluster.gpus))
        placed = {}
        for name, model in draw.sample(list(setup.models.items()), len(setup.models)):
            span = HYBRID_WORKERS if model.name == "GPT3" else self.workers
            workers = draw.choice(model.workers(*span))
            racks = draw.randint(1, self.racks)
            nodes = take_fragment(draw, setup.cluster, free, workers, racks)
            if nodes is None:
                return None
            placed[name] = (draw.choice(self.priorities), nodes)
        return placed

    def _job(
        self,
        setup: Setup,
        name: str,
        model: Model,
        placed: tuple[int, tuple[str, ...]],
        draw: random.Random,
    ) -> Work:
        priority, fragment = placed
        workers = len(fragment)
        nodes = fragment if self.placement == "given" else None
        batches = setup.batches(model, workers, self.mix, nodes)
        if not batches:
            raise InputError(f"mix: {self.mix}: no batch of {model.name} fits the hyperperiod")
        batch = draw.choice(batches)
        alone_s = setup.alone_s(model.workload, workers, batch, nodes)
        return Work(
            name=name,
            model=model.name,
            batch=batch,
            workers=workers,
            priority=priority,
            nodes=nodes,
            iterations=max(1, round(self.seconds / alone_s)),
        )
