"""Whether cycles are all alike, or take turns, so that the pattern is longer than they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f

from metronome_opt.profiles.samples import Floats

_MOST_JOINED = 8
_LEAST_TURNS = 4  # how often each turn must have been seen
_CHANCE = 1e-5
_TRIFLE = 0.005  # differences of means that do not matter, in periods and shares
_ALIAS = 0.6  # the same, times the square of the cells of a period: what falls between cells
_NOTHING = 1e-6  # of the highest rate

Ints = NDArray[np.int64]


def turns(rates: Floats, starts: Ints, template: Floats) -> int:
    """Return of how many cycles, taking turns, the pattern consists.

    Cycles are compared by what does not depend on where samples happen to fall: volume, distance
    between centres of gravity, spread about these. If the means by turn differ by more than chance
    (F test of an analysis of variance) and not only by a trifle, the cycles are not alike.

    Parameters
    ----------
    rates
        Mbit/s of cells, NaN where nothing was measured, shape (cells,).
    starts
        The cell in which each cycle begins, shape (cycles,).
    template
        The mean cycle, for cells that are missing.
    """
    features = _features(rates, starts, template)
    trifle = max(_TRIFLE, _ALIAS / len(template) ** 2)
    for count in range(2, min(_MOST_JOINED, len(features) // _LEAST_TURNS) + 1):
        if _unlikeness(features, count, trifle) < _CHANCE:
            return count * turns(rates, starts[::count], np.tile(template, count))
    return 1


def _features(rates: Floats, starts: Ints, template: Floats) -> Floats:
    """Return volume, distance to the next centre and spread of each cycle, shape (cycles - 1, 3).

    All are shares of their means or of the mean length of a cycle.
    """
    cells = _filled(rates, starts, template)
    place = np.arange(len(cells)) + starts[0]
    least = _NOTHING * float(np.max(cells))
    weight = np.maximum(cells - np.quantile(cells, 0.05), 0.0) + least
    moments = np.array(
        [np.add.reduceat(weight * place**power, (starts - starts[0])[:-1]) for power in range(3)]
    )
    volume = moments[0]
    centre = moments[1] / volume
    spread = np.sqrt(np.maximum(0.0, moments[2] / volume - centre**2))
    length = np.mean(np.diff(starts))
    return np.column_stack(
        (volume[:-1] / volume.mean(), np.diff(centre) / length, spread[:-1] / length)
    )


def _filled(rates: Floats, starts: Ints, template: Floats) -> Floats:
    """Return the cells from the first start to the last, with the template where one is missing."""
    cells = rates[starts[0] : starts[-1]].copy()
    place = np.arange(len(cells)) + starts[0]
    since = place - starts[np.searchsorted(starts, place, side="right") - 1]
    missing = np.isnan(cells)
    cells[missing] = template[np.minimum(since[missing], len(template) - 1)]
    return cells


def _unlikeness(features: Floats, turns: int, trifle: float) -> float:
    """Return how likely the features of such turns would differ as much by chance."""
    turn = np.arange(len(features)) % turns
    counts = np.bincount(turn)[:, None]
    means = np.array([features[turn == each].mean(axis=0) for each in range(turns)])
    between = (counts * (means - features.mean(axis=0)) ** 2).sum(axis=0) / (turns - 1)
    within = ((features - means[turn]) ** 2).sum(axis=0) / (len(features) - turns)
    ratio = between / (within + len(features) / turns * trifle**2)
    return float(f.sf(ratio.max(), turns - 1, len(features) - turns))
