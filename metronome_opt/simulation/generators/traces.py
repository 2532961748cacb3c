"""Arrivals of traces of clusters as other projects publish them.

A window of the trace is simulated, another one for each seed. Three forms are known by their
columns: Muri's, which states iterations and network times; Sia's, whose models are looked up among
published iterations, and whose lengths are the published GPU hours of the model; and Philly's as
Sia has it, which states lengths and no models, so that models are drawn.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from metronome_opt.errors import InputError, error_context, pluralise, quote
from metronome_opt.files.records import Jitter, Name
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.published import Published, PublishedStep, read_published
from metronome_opt.simulation.generators.context import (
    Generator,
    GeneratorContext,
    job_names,
    published_job,
    stream,
)

_MAX_ARRIVALS = 1_000_000
_MAX_NUMBER = 1e15  # in a trace
_MURI_GPUS = 8  # of a node of its cluster
_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_Row = Mapping[str, str]


class Arrival(NamedTuple):
    """A job of a trace."""

    at_s: float  # in seconds, on the clock of the trace
    gpus: int
    # the model, and samples of one GPU; None where the trace does not state them
    model: str | None = None
    batch: int | None = None
    gpu_s: float | None = None  # the length in GPU seconds; None where it is that of the model
    # an iteration and the number of iterations, where the trace states them
    work: tuple[PublishedStep, int] | None = None


def _number(row: _Row, column: str, least: float = 0.0) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not least <= value <= _MAX_NUMBER:
        raise InputError(
            f"{column}: must be a number from {least:g} to {_MAX_NUMBER:g}, "
            f"got {quote(row[column])}"
        )
    return value


def _count(row: _Row, column: str) -> int:
    value = _number(row, column, 1)
    if value != int(value):
        raise InputError(f"{column}: must be a whole number, got {quote(row[column])}")
    return int(value)


def _muri(row: _Row) -> Arrival:
    length, network = _number(row, "iteration_time", 1e-3), _number(row, "resource_time_2")
    if network > length:
        raise InputError(f"resource_time_2: {network:g}: is above iteration_time, {length:g}")
    gpus = _count(row, "num_gpu")
    step = PublishedStep(
        model=row["model_name"].lower() or "unknown",
        gpus=gpus,
        nodes=-(-gpus // _MURI_GPUS),
        batch=_count(row, "batch_size"),
        iteration_ms=Fraction(repr(length)),
        network_ms=Fraction(repr(network)),
    )
    at_s = _number(row, "submit_time") / 1000
    work = step, _count(row, "iterations")
    return Arrival(at_s, gpus, step.model, step.batch, work=work)


def _sia(row: _Row) -> Arrival:
    gpus = _count(row, "num_replicas")
    batch = max(1, round(_number(row, "batch_size", 1) / gpus))
    return Arrival(_number(row, "time"), gpus, row["application"].lower(), batch)


def _philly(row: _Row) -> Arrival:
    gpus = _count(row, "num_gpus")
    try:
        at = datetime.fromisoformat(row["timestamp"])
    except ValueError:
        raise InputError(f"timestamp: must be a time, got {quote(row['timestamp'])}") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return Arrival(at.timestamp(), gpus, gpu_s=gpus * _number(row, "duration"))


_FORMS: Mapping[tuple[str, ...], Callable[[_Row], Arrival]] = {
    (
        *("num_gpu", "submit_time", "iterations", "model_name", "batch_size"),
        *("iteration_time", "resource_time_2"),
    ): _muri,
    ("time", "application", "num_replicas", "batch_size"): _sia,
    ("timestamp", "duration", "num_gpus"): _philly,
}


@lru_cache(maxsize=1)  # all cells and seeds ask for it
def read_trace(path: str | Path) -> Sequence[Arrival]:
    """Read the arrivals of a trace in their order; a CSV file, perhaps compressed (gz, xz)."""
    arrivals: list[Arrival] = []
    try:
        with _OPENERS.get(Path(path).suffix, open)(path, "rt", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, restval="")
            columns = set(rows.fieldnames or ())
            form = next((form for form in _FORMS if set(form) <= columns), None)
            if form is None:
                known = "; ".join(", ".join(form) for form in _FORMS)
                raise InputError(f"{path}: line 1: columns of no known trace; known are {known}")
            for row in rows:
                with error_context(f"{path}: line {rows.line_num}"):
                    if None in row:
                        raise InputError(f"has more columns than line 1, {len(columns)}")
                    if len(arrivals) >= _MAX_ARRIVALS:
                        raise InputError(f"more than {_MAX_ARRIVALS:,} arrivals; cut the file")
                    arrivals.append(_FORMS[form](row))
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path}: cannot be read ({why}); get the file again") from None
    if not arrivals:
        raise InputError(f"{path}: holds no arrivals")
    return tuple(sorted(arrivals, key=lambda arrival: arrival.at_s))


class Trace(Generator):
    """Arrivals of a trace; seeds take one window of it after the other.

    Jobs larger than the cluster are dropped.

    Parameters
    ----------
    file
        The trace; `metronome simulate --trace` sets it.
    published
        Published iterations, where the trace states none.
    count
        Arrivals of a window.
    faster
        Factor by which time passes faster, and by which jobs have fewer iterations: the load stays.
    jitter
        Jitter of all jobs; omitted, none is known.
    """

    file: Annotated[str, Field(min_length=1)] | None = None
    published: Name = "muri"
    count: Annotated[int, Field(ge=1, le=_MAX_ARRIVALS)] = 100
    faster: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    jitter: Jitter = None

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs of the window of a seed; the last one may have fewer."""
        if self.file is None:
            raise InputError("file: missing; name the trace with --trace FILE")
        table = read_published(self.published)
        gpus = context.gpus
        with error_context("file"):
            arrivals = [arrival for arrival in read_trace(self.file) if arrival.gpus <= gpus]
        if not arrivals:
            raise InputError(f"file: {self.file}: no job fits into {gpus} GPUs")
        windows = -(-len(arrivals) // self.count)
        if seed >= windows and arrivals[0].model is not None:  # else other models are drawn
            raise InputError(
                f"count: {self.count}: {self.file} has {pluralise(windows, 'window')} of this "
                f"number of jobs, and seed {seed} asks for one more; ask for fewer seeds or "
                "smaller windows"
            )
        first = seed % windows * self.count
        window = arrivals[first : first + self.count]
        draw, jobs = stream(seed, "models"), []
        for name, arrival in zip(job_names(len(window)), window, strict=True):
            if arrival.model is None:
                arrival = arrival._replace(model=draw.choice(table.models))
            step, iterations = arrival.work or _published_work(table, arrival)
            job = published_job(
                context,
                name,
                step,
                table.rate_mbps,
                arrival.gpus,
                arrival_s=(arrival.at_s - window[0].at_s) / self.faster,
                iterations=iterations / self.faster,
                jitter=self.jitter,
            )
            jobs.append(job)
        return tuple(jobs)


def _published_work(table: Published, arrival: Arrival) -> tuple[PublishedStep, float]:
    """Return the published iteration of a job, and how many take its published GPU hours."""
    with error_context("published"):
        step = table.step(arrival.model or "", arrival.gpus, arrival.batch)
        if arrival.gpu_s is None and step.model not in table.gpu_hours:
            raise InputError(
                f"{table.name} states no GPU hours of {quote(arrival.model)}; choose another one, "
                "such as sia-rtx"
            )
    gpu_s = arrival.gpu_s
    if gpu_s is None:
        gpu_s = 3600 * float(table.gpu_hours[step.model])
    return step, 1000 * gpu_s / arrival.gpus / float(step.iteration_ms)
