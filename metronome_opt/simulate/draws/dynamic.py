"""`dynamic`: jobs that come and go."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError
from metronome_opt.records import refuse
from metronome_opt.scenario.model import Work
from metronome_opt.simulate.draws.setup import Generator, Mix, Priorities, Setup, Span, stream

MAX_JOBS = 1_000_000


@dataclass(frozen=True)
class _Drawn:
    """A job before its arrival is known.

    Attributes
    ----------
    job
        All but name and arrival.
    iterations
        How many it has.
    alone_s
        Seconds of an iteration if the network is the job's own.
    """

    job: Work
    iterations: int
    alone_s: float

    @property
    def gpu_s(self) -> float:
        """GPU-seconds of the whole job."""
        return self.job.workers * self.iterations * self.alone_s

    def at(self, arrival_s: float) -> tuple[float, int]:
        """Return when it arrives and how many iterations it has left then.

        A job that came before 0 arrives when the iteration ends that it is in at 0.
        """
        if arrival_s >= 0:
            return arrival_s, self.iterations
        done = math.ceil(-arrival_s / self.alone_s)
        return arrival_s + done * self.alone_s, self.iterations - done


class Dynamic(Generator):
    """Poisson arrivals of jobs of the thirteen models, drawn evenly, nodes left to the policy.

    The load is what arrives over what the GPUs could do: arrivals per second, times the mean
    GPU-seconds of a job that has the network to itself, over the number of GPUs. It comes out
    exactly, since arrivals are drawn given how many there are: evenly over the time in which the
    GPUs, busy to the share `load`, could do the work of all jobs.

    Parameters
    ----------
    count
        How many jobs arrive, beginning with an empty cluster.
    hours
        For how long jobs arrive; instead of `count`. The cluster is warm then: the jobs that would
        be running at 0, had jobs arrived for ever and none waited, arrive when the iteration ends
        that they are in, with the iterations that are left.
    load
        See above.
    mix
        What batches are drawn from.
    workers, iterations
        Least and most, both drawn evenly; see `Model.workers` for which numbers of workers.
    priorities
        Classes to draw from.
    """

    count: Annotated[int, Field(ge=1, le=MAX_JOBS)] | None = None
    hours: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)] | None = None
    load: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.8
    mix: Mix = "any"
    workers: Span = (2, 8)
    priorities: Priorities = (1, 2, 4)
    iterations: Span = (200, 1000)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.count is None) == (self.hours is None):
            refuse("count", "give either count or hours")
        return self

    def jobs(self, setup: Setup, seed: int) -> tuple[Work, ...]:
        """Return the jobs in order of arrival."""
        if self.workers[1] > setup.gpus:
            raise InputError(f"workers: {self.workers[1]}: the cluster has {setup.gpus} GPUs")
        endless = self._draw(setup, seed)
        gpus = self.load * setup.gpus  # GPU-seconds that arrive per second
        if self.hours is None:
            drawn = list(islice(endless, self.count))
            begin, end = 0.0, math.fsum(one.gpu_s for one in drawn) / gpus
        else:
            begin, end = -self._longest_s(setup), 3600 * self.hours
            drawn = list(_worth(endless, gpus * (end - begin)))
        times = stream(seed, "arrivals")
        found = sorted(
            (*one.at(times.uniform(begin, end)), number) for number, one in enumerate(drawn)
        )
        found = [row for row in found if row[1] > 0]  # iterations left
        digits = len(str(len(found) - 1))
        return tuple(
            drawn[number].job.model_copy(
                update={"name": f"job-{index:0{digits}}", "arrival_s": arrival, "iterations": left}
            )
            for index, (arrival, left, number) in enumerate(found)
        )

    def _draw(self, setup: Setup, seed: int) -> Iterator[_Drawn]:
        """Draw jobs without end."""
        draw = stream(seed, "jobs")
        classes, batches = stream(seed, "priorities"), stream(seed, "batches")
        models = list(setup.models.values())
        while True:
            model = draw.choice(models)
            workers = draw.choice(model.workers(*self.workers))
            iterations = draw.randint(*self.iterations)
            suitable = setup.batches(model, workers, self.mix)
            if not suitable:
                raise InputError(f"mix: {self.mix}: no batch of {model.name} fits the hyperperiod")
            batch = batches.choice(suitable)
            job = Work(
                name=model.name,
                model=model.name,
                batch=batch,
                workers=workers,
                priority=classes.choice(self.priorities),
            )
            yield _Drawn(job, iterations, setup.alone_s(model.workload, workers, batch))

    def _longest_s(self, setup: Setup) -> float:
        """Return how long no job takes that has the network to itself, in seconds."""
        return self.iterations[1] * max(
            setup.alone_s(model.workload, workers, setup.batches(model, workers, "free")[-1])
            for model in setup.models.values()
            for workers in model.workers(*self.workers)[-1:]
        )


def _worth(drawn: Iterator[_Drawn], gpu_s: float) -> Iterator[_Drawn]:
    """Take jobs until their work comes to `gpu_s`."""
    while gpu_s > 0:
        one = next(drawn)
        gpu_s -= one.gpu_s
        yield one
