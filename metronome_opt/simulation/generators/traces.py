"""Arrivals as they were: traces of clusters as other projects publish them.

A window of the trace is simulated, another one for each seed. Three forms are known by their
columns: Muri's, which states iterations and network times; Sia's, whose models are looked up among
published iterations, and whose lengths are the published GPU hours of the model; and Philly's,
which states no model: one is drawn.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, NamedTuple

from pydantic import Field

from metronome_opt.errors import InputError, error_context, pluralise, quote
from metronome_opt.files.records import Jitter, Name
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.published import Published, PublishedStep, read_published
from metronome_opt.simulation.generators.setup import (
    Generator,
    GeneratorContext,
    published_job,
    stream,
)

_MAX_ARRIVALS = 1_000_000
_MAX_LINE = 10_000  # characters
_LARGEST = 1e15  # of a number in a trace
_Row = Mapping[str, str]


class Arrival(NamedTuple):
    """A job of a trace.

    Attributes
    ----------
    at_s
        In seconds, on the clock of the trace.
    model
        None where the trace does not say.
    step
        An iteration, where the trace states it.
    iterations, gpu_s
        Length of the job, in iterations or in seconds on one GPU; None where the trace does not
        say.
    """

    at_s: float
    gpus: int
    model: str | None = None
    batch: int | None = None
    step: PublishedStep | None = None
    iterations: int | None = None
    gpu_s: float | None = None


_MURI_GPUS = 8  # of a node of its cluster


def _number(row: _Row, column: str, least: float = 0.0) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not least <= value <= _LARGEST:
        raise InputError(
            f"{column}: must be a number from {least:g} to {_LARGEST:g}, got {quote(row[column])}"
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
    iterations = _count(row, "iterations")
    at_s = _number(row, "submit_time") / 1000
    return Arrival(at_s, step.gpus, step.model, step.batch, step, iterations)


def _sia(row: _Row) -> Arrival:
    gpus = _count(row, "num_replicas")
    batch = max(1, round(_number(row, "batch_size", 1) / gpus))
    return Arrival(_number(row, "time"), gpus, row["application"].lower(), batch)


def _philly(row: _Row) -> Arrival:
    gpus = _count(row, "num_gpus")
    try:
        at = datetime.fromisoformat(row["timestamp"])
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        raise InputError(f"timestamp: must be a time, got {quote(row['timestamp'])}") from None
    return Arrival(at.timestamp(), gpus, gpu_s=gpus * _number(row, "duration"))


_FORMS: Mapping[tuple[str, ...], Callable[[_Row], Arrival]] = {
    (
        *("num_gpu", "submit_time", "iterations", "model_name", "batch_size"),
        *("iteration_time", "resource_time_2"),
    ): _muri,
    ("time", "application", "num_replicas", "batch_size"): _sia,
    ("timestamp", "duration", "num_gpus"): _philly,
}


@lru_cache(maxsize=1)  # each cell and seed asks for it
def read_trace(path: str | Path) -> Sequence[Arrival]:
    """Read the arrivals of a trace in their order; a CSV file, perhaps compressed (gz, xz).

    Raises
    ------
    InputError
        If the file cannot be read, is none of the known forms, or a line of it is damaged.
    """
    arrivals: list[Arrival] = []
    try:
        with _open(Path(path)) as file:
            rows = csv.DictReader(_lines(file), restval="")
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
        raise InputError(f"{path}: cannot be read ({why}); get the file anew") from None
    if not arrivals:
        raise InputError(f"{path}: holds no arrivals")
    return tuple(sorted(arrivals, key=lambda arrival: arrival.at_s))


def _open(path: Path) -> IO[str]:
    match path.suffix:
        case ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig")
        case ".xz":
            return lzma.open(path, "rt", encoding="utf-8-sig")
        case _:
            return path.open(encoding="utf-8-sig")


def _lines(file: IO[str]) -> Iterator[str]:
    while line := file.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise csv.Error(f"a line of more than {_MAX_LINE:,} characters")
        yield line


class Trace(Generator):
    """Arrivals of a trace; seeds take one window of it after the other.

    Jobs larger than the cluster are left out.

    Parameters
    ----------
    file
        The trace; `metronome simulate --trace` sets it.
    published
        Published iterations, where the trace states none.
    count
        Arrivals of a window.
    faster
        So many times sooner do jobs arrive, and so many times fewer iterations do they have: the
        load stays.
    jitter
        Of all jobs, which state it; left out, none is known.
    """

    file: Annotated[str, Field(min_length=1)] | None = None
    published: Name = "muri"
    count: Annotated[int, Field(ge=1, le=_MAX_ARRIVALS)] = 100
    faster: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    jitter: Jitter = None

    def jobs(self, setup: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs of the window of a seed; the last one may have fewer."""
        if self.file is None:
            raise InputError("file: missing; name the trace with --trace FILE")
        table = read_published(self.published)
        room = setup.gpus
        with error_context("file"):
            arrivals = [arrival for arrival in read_trace(self.file) if arrival.gpus <= room]
        if not arrivals:
            raise InputError(f"file: {self.file}: no job fits into {room} GPUs")
        windows = -(-len(arrivals) // self.count)
        if seed >= windows and arrivals[0].model is not None:  # else others are drawn
            raise InputError(
                f"count: {self.count}: {self.file} has {pluralise(windows, 'window')} of so many "
                f"jobs, and seed {seed} asks for one more; ask for fewer seeds or smaller windows"
            )
        first = seed % windows * self.count
        window = arrivals[first : first + self.count]
        draw = stream(seed, "models")
        digits = len(str(len(window) - 1))
        return tuple(
            self._job(setup, f"job-{index:0{digits}}", arrival, window[0].at_s, table, draw.choice)
            for index, arrival in enumerate(window)
        )

    def _job(
        self,
        setup: GeneratorContext,
        name: str,
        arrival: Arrival,
        begin_s: float,
        table: Published,
        choose: Callable[[tuple[str, ...]], str],
    ) -> JobSpec:
        model = arrival.model or choose(table.models)
        step = arrival.step
        if step is None:
            with error_context("published"):
                step = table.step(model, arrival.gpus, arrival.batch)
        if arrival.iterations is not None:
            iterations = float(arrival.iterations)
        else:
            gpu_s = arrival.gpu_s
            if gpu_s is None:
                if step.model not in table.gpu_hours:
                    raise InputError(
                        f"published: {table.name} states no GPU hours of {quote(model)}; choose "
                        "another one, such as sia-rtx"
                    )
                gpu_s = 3600 * float(table.gpu_hours[step.model])
            iterations = 1000 * gpu_s / arrival.gpus / float(step.iteration_ms)
        return published_job(
            setup,
            name,
            step,
            table.rate_mbps,
            arrival.gpus,
            arrival_s=(arrival.at_s - begin_s) / self.faster,
            iterations=iterations / self.faster,
            jitter=self.jitter,
        )
