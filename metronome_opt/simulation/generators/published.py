"""Rings of jobs with a published iteration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from metronome_opt.errors import InputError, error_context
from metronome_opt.files.records import Name, Positive
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.published import read_published
from metronome_opt.simulation.generators.context import (
    Generator,
    GeneratorContext,
    Seconds,
    nodes_by_rack,
    published_job,
    stream,
)


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
