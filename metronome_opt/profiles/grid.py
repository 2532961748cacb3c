"""Samples on an even grid: what autocorrelation and tracking need, with gaps marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metronome_opt.profiles.samples import Floats, Samples

_LEAST_COVERED = 0.5  # of a cell, for its mean to count


@dataclass(frozen=True)
class Grid:
    """Mean rates of equal cells.

    Attributes
    ----------
    start_s, step_s
        Where the first cell begins, and the length of a cell.
    rates
        Mbit/s, NaN where less than half of a cell was measured, shape (cells,).
    """

    start_s: float
    step_s: float
    rates: Floats


def regrid(samples: Samples, step_s: float) -> Grid:
    """Spread samples over cells of `step_s`; every cell gets what was sent in it.

    Within the span of a sample its rate is taken for constant.
    """
    begins, ends, rates = spans(samples)
    knots = np.column_stack((begins, ends)).ravel()
    measured = np.column_stack((np.zeros(len(ends)), ends - begins)).ravel().cumsum()
    sent = np.column_stack((np.zeros(len(ends)), rates * (ends - begins))).ravel().cumsum()
    cells = max(1, int((ends[-1] - begins[0]) / step_s))
    borders = begins[0] + step_s * np.arange(cells + 1)
    covered = np.diff(np.interp(borders, knots, measured))
    volume = np.diff(np.interp(borders, knots, sent))
    enough = covered >= _LEAST_COVERED * step_s
    means = np.divide(volume, covered, out=np.full(cells, np.nan), where=enough)
    return Grid(float(begins[0]), step_s, means)


def spans(samples: Samples) -> tuple[Floats, Floats, Floats]:
    """Return begin, end and rate of each span that was measured, in order and disjoint."""
    known = np.isfinite(samples.rates_mbps)
    ends = samples.times_s[known]
    begins = ends - samples.spans_s[known]
    begins[1:] = np.maximum(begins[1:], ends[:-1])
    return begins, ends, samples.rates_mbps[known]
