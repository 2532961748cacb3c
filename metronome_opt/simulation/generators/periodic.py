"""Poisson arrivals of jobs whose periods and bursts are drawn, whatever they train."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from metronome_opt.errors import InputError
from metronome_opt.files.records import Jitter, Positive
from metronome_opt.scenario.collectives import sent
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.traffic import MEGABIT_PER_BYTE, Traffic
from metronome_opt.simulation.generators.context import Arrivals, GeneratorContext, ordered, stream

_EQUAL_MS, _HARMONIC_MS, _FREE_MS = 400, (200, 400, 800), (200, 800)

Share = Annotated[float, Field(gt=0, lt=1)]


def _span(value: Any) -> Any:
    """Read a single share, which can stand in a grid, as minimum and maximum."""
    return (value, value) if isinstance(value, float) else value


class Periodic(Arrivals):
    """Jobs that compute and then all-reduce around a ring of their workers.

    Parameters
    ----------
    gpus
        GPUs of a worker.
    periods
        ``equal``: 400 ms; ``harmonic``: 200, 400 or 800 ms; ``free``: uniform from 200 to 800 ms.
    busy
        Minimum and maximum of the share of its period that a job sends for, with a worker on each
        node and all of its interface; a number for both.
    jitter
        Jitter of all jobs, as they state it; omitted, none is known.
    """

    gpus: Positive = 1
    periods: Literal["equal", "harmonic", "free"] = "free"
    busy: Annotated[
        tuple[Share, Share], Field(strict=False), BeforeValidator(_span), AfterValidator(ordered)
    ] = (0.2, 0.5)
    jitter: Jitter = None

    def draw(self, context: GeneratorContext, seed: int) -> Iterator[tuple[JobSpec, float]]:
        """Yield random jobs without end, with their GPU-seconds."""
        most = sum(count // self.gpus for count in context.cluster.gpus_of.values())
        if not 2 <= self.workers[0] <= self.workers[1] <= most:
            raise InputError(f"workers: {self.workers[0]} to {self.workers[1]}: not 2 to {most}")
        draw, periods, classes = (stream(seed, part) for part in ("jobs", "periods", "priorities"))
        rate = context.cluster.nic
        while True:
            workers, iterations = draw.randint(*self.workers), draw.randint(*self.iterations)
            busy = draw.uniform(*self.busy)
            period_ms = {
                "equal": _EQUAL_MS,
                "harmonic": periods.choice(_HARMONIC_MS),
                "free": periods.randint(*_FREE_MS),
            }[self.periods]
            sending_ms = max(1, round(busy * period_ms))
            ring = sent("all-reduce", Fraction(1), workers * self.gpus)  # of a buffer of one byte
            phase = {
                "start_ms": period_ms - sending_ms,
                "length_ms": sending_ms,
                "rate_mbps": rate,
                "collective": "all-reduce",
                "bytes": round(rate * sending_ms / (1000 * MEGABIT_PER_BYTE * ring)),
            }
            job = JobSpec(
                name="job",
                traffic=Traffic.model_validate({"period_ms": period_ms, "phases": [phase]}),
                workers=workers,
                each=Resources(gpus=self.gpus),
                allreduce="ring",
                priority=classes.choice(self.priorities),
                iterations=iterations,
                jitter=self.jitter,
            )
            yield job, job.gpus * iterations * period_ms / 1000
