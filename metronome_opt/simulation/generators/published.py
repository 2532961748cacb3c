"""Jobs with published iterations: groups of equal ones, as searches submit them, and rings."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from pydantic import Field

from metronome_opt.errors import InputError, error_context
from metronome_opt.files.records import FrozenMap, Jitter, Name, Positive
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.published import read_published
from metronome_opt.simulation.generators.context import (
    Generator,
    GeneratorContext,
    Seconds,
    Span,
    job_names,
    nodes_by_rack,
    published_job,
    stream,
)

_MAX_JOBS = 100_000

Shares = FrozenMap[Name, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
"""Weights of a draw, by what is drawn."""


class Sweeps(Generator):
    """Groups of jobs of one model, size and length; the jobs of a group arrive together.

    Arrivals are drawn for a load, as under `Arrivals`.

    Parameters
    ----------
    published
        Published iterations, whose models are drawn uniformly, and then their batches.
    models
        The models to draw from; all if left out.
    count
        Jobs; the last group may be smaller than drawn.
    load
        GPU-seconds of isolated jobs that arrive, over the GPU-seconds that there are.
    groups, gpus
        Sizes of groups, and GPUs of their jobs, by the share of groups that have them.
    iterations
        Minimum and maximum of a uniform distribution.
    jitter
        Jitter of all jobs; left out, none is known.
    """

    published: Name = "muri"
    models: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    count: Annotated[int, Field(ge=1, le=_MAX_JOBS)] = 60
    load: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.8
    groups: Shares
    gpus: Shares
    iterations: Span = (200, 1000)
    jitter: Jitter = None

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs in order of arrival."""
        table = read_published(self.published)
        draw, times = stream(seed, "jobs"), stream(seed, "arrivals")
        sizes, widths = _counts("groups", self.groups), _counts("gpus", self.gpus)
        groups, gpu_s, left = [], 0.0, self.count
        while left:
            size = min(left, draw.choices(sizes, list(self.groups.values()))[0])
            gpus = draw.choices(widths, list(self.gpus.values()))[0]
            with error_context("models"):
                model = draw.choice(self.models or table.models)
                batch = draw.choice(table.batches(model, gpus))
                step = table.step(model, gpus, batch)
            iterations = draw.randint(*self.iterations)
            groups.append((size, gpus, step, iterations))
            gpu_s += size * gpus * iterations * float(step.iteration_ms) / 1000
            left -= size
        end = gpu_s / (self.load * context.gpus)
        arrivals = sorted(times.uniform(0.0, end) for _ in groups)
        names, jobs = iter(job_names(self.count)), []
        for arrival_s, (size, gpus, step, iterations) in zip(arrivals, groups, strict=True):
            for name in islice(names, size):
                job = published_job(
                    context,
                    name,
                    step,
                    table.rate_mbps,
                    gpus,
                    arrival_s=arrival_s,
                    iterations=iterations,
                    jitter=self.jitter,
                )
                jobs.append(job)
        return tuple(jobs)


def _counts(field: str, shares: Shares) -> list[int]:
    """Return the numbers that shares are of."""
    if not shares or not all(key.isdecimal() and int(key) >= 1 for key in shares):
        raise InputError(f"{field}: must map numbers from 1 on to shares, such as {{'2': 0.5}}")
    return list(map(int, shares))


class Ring(Generator):
    """As many jobs as racks, with a task in a rack and one in the next rack.

    A job arrives within the length of an iteration; the seed draws when, and its period.

    Parameters
    ----------
    published, model, gpus
        Table, model and GPUs of the published iteration of all jobs. Half of the GPUs are on a node
        of each rack.
    apart
        The range of periods over their mean. Periods are drawn uniformly; they differ in computing.
    seconds
        Duration of isolated jobs.
    """

    published: Name = "muri"
    model: Name
    gpus: Positive
    apart: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    seconds: Seconds = 60.0

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs in the order of the racks."""
        pairs = list(nodes_by_rack(context.cluster).values())
        if len(pairs) < 3 or any(len(nodes) < 2 for nodes in pairs):
            raise InputError("model: jobs of a ring need three racks of two nodes or more")
        if self.gpus != 2 * context.widest:
            raise InputError(f"gpus: {self.gpus}: must be those of two nodes, {2 * context.widest}")
        table, draw = read_published(self.published), stream(seed, "ring")
        with error_context("model"):
            mean = table.step(self.model, self.gpus, None)
        members = []
        for index, nodes in enumerate(pairs):
            longer = round(float(mean.iteration_ms) * self.apart * (draw.random() - 0.5))
            step = mean.model_copy(update={"iteration_ms": mean.iteration_ms + longer})
            if step.iteration_ms < step.network_ms:
                raise InputError(f"apart: {self.apart}: leaves jobs no time to compute; try less")
            isolated_s = float(step.iteration_ms) / 1000
            job = published_job(
                context,
                f"job-{index}",
                step,
                table.rate_mbps,
                self.gpus,
                arrival_s=isolated_s * draw.random(),
                iterations=self.seconds / isolated_s,
                jitter=None,
            )
            behind = pairs[(index + 1) % len(pairs)][1]
            members.append(job.model_copy(update={"nodes": (nodes[0], behind)}))
        return tuple(members)
