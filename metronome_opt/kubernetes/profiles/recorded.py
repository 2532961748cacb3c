"""Measurements in files: records of gates, a line of JSON per burst; and samples (CSV)."""

from __future__ import annotations

import csv
import json
import math
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import explain

_Number = Annotated[float, Field(ge=0, lt=1e18, allow_inf_nan=False, strict=True)]


class RecordedBurst(BaseModel):
    """A line of the record of a gate; times in ms, but ``at`` in seconds since the epoch.

    ``iteration_ms`` is the time since the iteration before began, in its first burst only.
    """

    at: _Number
    burst_ms: _Number
    phase: Annotated[int, Field(ge=0)] = 0
    waited_ms: _Number = 0.0
    iteration_ms: _Number | None = None
    sent_bytes: _Number | None = None
    job: str = ""
    task: int | None = None


def read_record(path: str | Path) -> list[RecordedBurst]:
    """Read the record of one task of one job, in which bursts do not overlap.

    A line that was cut off when the job was killed is omitted.
    """
    bursts: list[RecordedBurst] = []
    for number, line in enumerate(_lines(path), start=1):
        if line.endswith("}"):
            with error_context(f"{path}: line {number}"):
                bursts.append(_parse(line, bursts[-1] if bursts else None))
    if not bursts:
        raise InputError(f"{path}: holds no bursts of a gate")
    return bursts


def _parse(line: str, before: RecordedBurst | None) -> RecordedBurst:
    try:
        burst = RecordedBurst.model_validate(json.loads(line))
    except ValidationError as error:
        raise InputError(explain(error)) from None
    except (ValueError, RecursionError):
        raise InputError("is not JSON") from None
    if before and (burst.job, burst.task) != (before.job, before.task):
        raise InputError(
            f"is of task {burst.task} of job {burst.job}, those before of task {before.task} of "
            f"job {before.job}; give one task in each file"
        )
    if before and burst.at < before.at + before.burst_ms / 1000:
        raise InputError(
            f"at: {burst.at!r}: before the end of the burst before; the clock was set, or two "
            "programs wrote here"
        )
    return burst


def read_samples(path: str | Path) -> NDArray[np.float64]:
    """Return times in seconds and rates, shape (2, n), of a CSV file with a line of headings.

    Times ascend; an empty cell is a missing rate, NaN.
    """
    rows: list[tuple[float, float]] = []
    before = -math.inf
    for number, row in islice(enumerate(csv.reader(_lines(path)), start=1), 1, None):
        try:
            time_s, rate = (float(cell.strip() or "nan") for cell in row)
        except ValueError:
            time_s, rate = math.nan, math.nan
        if not before < time_s < math.inf or not (math.isnan(rate) or 0 <= rate < math.inf):
            raise InputError(
                f"{path}: line {number}: {quote(','.join(row))}: must be a time in seconds, after "
                "the one before, and a number that is not negative, with a comma between them"
            )
        rows.append((time_s, rate))
        before = time_s
    return np.array(rows, dtype=np.float64).reshape(-1, 2).T


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8") from None
