"""Fitting steps to the mean cycle by least squares, their number given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from metronome_opt.profiles.folding import Bins
from metronome_opt.profiles.samples import Floats
from metronome_opt.profiles.steps import Steps, derivatives, share_after

LEAST_BLUR = 0.05
"""In spans; edges that are sharper look alike."""

_BEYOND = 0.25  # of the height of the mean cycle: how far beyond it a rate may be
_ENOUGH = 1e-5
_EVALUATIONS = 30

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Fit:
    """Steps, and how far the mean cycle is off them: the mean square in (Mbit/s)^2."""

    steps: Steps
    off: float


def fit(bins: Bins, guess: Steps, *, which: Ints | None = None, most_blur_s: float = 0.0) -> Fit:
    """Move edges and rates, from a guess, until they fit the mean cycle.

    Parameters
    ----------
    bins
        The mean cycle.
    guess
        Where to begin; its first and last rate are one.
    which
        Rates of one number are the same, shape (edges + 1,); None for no others.
    most_blur_s
        How much edges may be blurred; those of the guess are kept if that is nothing.
    """
    which = _numbered(np.arange(len(guess.rates)) if which is None else which)
    problem = _Problem(bins, guess.blurs_s, which, most_blur_s > 0)
    least, most = problem.bounds(most_blur_s)
    found = least_squares(
        problem.off,
        np.clip(problem.unknowns(guess), least, most),
        problem.jacobian,
        (least, most),
        x_scale=problem.units,
        ftol=_ENOUGH,
        xtol=_ENOUGH,
        max_nfev=_EVALUATIONS,
    )
    return Fit(problem.steps(found.x), float(2 * found.cost))


def moves(bins: Bins, steps: Steps, which: Ints) -> tuple[Floats, Floats]:
    """Return how the fits to parts of the cycles differ from that to all of them, to first order.

    How far they are apart tells the error of the whole. It takes in that jitter moves neighbouring
    bins together, which residuals of the bins do not show.

    Returns
    -------
    edges, rates
        Seconds, shape (parts, edges), and Mbit/s, shape (parts, edges + 1).
    """
    which = _numbered(which)
    problem = _Problem(bins, steps.blurs_s, which, blurs_free=False)
    jacobian = problem.jacobian(problem.unknowns(steps))
    found = []
    for part in bins.parts:
        known = np.isfinite(part)
        off = problem.scale[known] * (part - bins.rates)[known]
        found.append(np.linalg.lstsq(jacobian[known], off, rcond=None)[0])
    edges, levels = np.split(np.array(found), [len(steps.edges_s)], axis=1)
    return edges, levels[:, which]


def _numbered(which: Ints) -> Ints:
    """Return numbers from 0 on for rates that may differ; the last is the first."""
    same = which.copy()
    same[-1] = same[0]
    return np.unique(same, return_inverse=True)[1].astype(np.int64)


class _Problem:
    """Least squares in edges, rates and, if they are free, blurs."""

    def __init__(self, bins: Bins, blurs_s: Floats, which: Ints, blurs_free: bool) -> None:
        self.bins = bins
        self.blurs_s = blurs_s
        self.which = which
        self.blurs_free = blurs_free
        self.count = len(blurs_s)
        self.levels = int(which.max()) + 1
        self.scale = np.sqrt(bins.counts / bins.counts.sum())
        belongs = np.zeros((self.count + 1, self.levels))
        belongs[np.arange(self.count + 1), which] = 1.0
        self.changes = np.diff(belongs, axis=0)  # of levels, at each edge
        height = float(np.ptp(bins.rates)) or 1.0
        time = np.full(self.count, bins.span_s)
        units = [time, np.full(self.levels, height), *([time] if blurs_free else [])]
        self.units = np.concatenate(units)
        self.rates_within = (
            float(bins.rates.min()) - _BEYOND * height,
            float(bins.rates.max()) + _BEYOND * height,
        )

    def unknowns(self, steps: Steps) -> Floats:
        levels = [steps.rates[self.which == each].mean() for each in range(self.levels)]
        parts = [steps.edges_s, np.array(levels)]
        return np.concatenate([*parts, steps.blurs_s] if self.blurs_free else parts)

    def steps(self, unknowns: Floats) -> Steps:
        edges, levels, blurs = self._parts(unknowns)
        order = np.argsort(edges)
        return Steps(edges[order], blurs[order], levels[self.which])

    def bounds(self, most_blur_s: float) -> tuple[Floats, Floats]:
        """Return between what the unknowns may be.

        Without bounds on rates, two of them, opposite and huge, may stand for one edge.
        """
        sharpest = LEAST_BLUR * self.bins.span_s
        within = (
            (0.0, float(self.bins.middles_s[-1])),
            self.rates_within,
            (sharpest, max(most_blur_s, 2 * sharpest)),
        )
        counts = (self.count, self.levels, self.count if self.blurs_free else 0)
        least, most = (np.repeat(np.array(each), counts) for each in zip(*within, strict=True))
        return least, most

    def off(self, unknowns: Floats) -> Floats:
        edges, levels, blurs = self._parts(unknowns)
        shares = share_after(self.bins.middles_s, self.bins.span_s, edges, blurs)
        seen = levels[self.which[0]] + shares @ (self.changes @ levels)
        return np.asarray(self.scale * (seen - self.bins.rates))

    def jacobian(self, unknowns: Floats) -> Floats:
        edges, levels, blurs = self._parts(unknowns)
        where = (self.bins.middles_s, self.bins.span_s, edges, blurs)
        by_edge, by_blur = derivatives(*where)
        by_level = share_after(*where) @ self.changes
        by_level[:, self.which[0]] += 1.0
        change = self.changes @ levels
        columns = [by_edge * change, by_level, *([by_blur * change] if self.blurs_free else [])]
        return np.asarray(self.scale[:, None] * np.hstack(columns))

    def _parts(self, unknowns: Floats) -> tuple[Floats, Floats, Floats]:
        edges, levels, blurs = np.split(unknowns, [self.count, self.count + self.levels])
        return edges, levels, blurs if self.blurs_free else self.blurs_s
