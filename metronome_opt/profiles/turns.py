"""Whether cycles are all alike, or take turns, so that the pattern is longer than they are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f

from metronome_opt.profiles.samples import Floats

_MOST_JOINED = 8
_LEAST_TURNS = 4  # how often each turn must have been seen
_CHANCE = 1e-5
_TRIFLE = 0.012  # differences of means that do not matter, in periods and shares
_NOTHING = 1e-6  # of the highest rate, of a period
_POINT = 0.3  # cells: the spread of what was sent within one

Ints = NDArray[np.int64]


def turns(rates: Floats, starts: Ints, template: Floats) -> int:
    """Return of how many cycles, taking turns, the pattern consists.

    Cycles are compared by what hardly depends on where samples happen to fall: volume, distance
    between centres of gravity, spread about these. They are not alike if the means by turn differ
    by more than chance (F test of an analysis of variance), by more than a trifle, and by more than
    cells can make them differ: where samples fall may take turns as well.

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
    least = np.maximum(_TRIFLE, _by_cells(template))
    for count in range(2, min(_MOST_JOINED, len(features) // _LEAST_TURNS) + 1):
        if _take_turns(features, count, least):
            return count * turns(rates, starts[::count], np.tile(template, count))
    return 1


def _features(rates: Floats, starts: Ints, template: Floats) -> Floats:
    """Return volume, distance to the next centre and spread of each cycle, shape (cycles - 1, 3).

    All are shares of their means or of the mean length of a cycle.
    """
    cells = _filled(rates, starts, template)
    place = np.arange(len(cells)) + starts[0]
    weight = _above_silence(cells)
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


def _by_cells(template: Floats) -> Floats:
    """Return by how much the features of like cycles may differ for where cells fall, shape (3,).

    A cell in which the rate changes by h tells how much was sent in it, but not when: the sum of
    volume times place may be off by h / 8, if the change is in the middle of the cell, and that of
    volume times the square of the distance from the centre by twice that distance times as much.
    """
    weight, place = _above_silence(template), np.arange(len(template))
    volume = float(weight.sum())
    centre = float(weight @ place) / volume
    spread = math.sqrt(float(weight @ (place - centre) ** 2) / volume) + _POINT
    changes = np.abs(np.diff(weight)) / 8
    far = np.abs(place[1:] - centre)
    by_centre = float(changes.sum()) / volume
    by_spread = float(changes @ far) / volume / spread
    return np.array([0.0, by_centre, by_spread]) / len(template)


def _above_silence(cells: Floats) -> Floats:
    """Return the rates above the lowest ones, and hardly anything for these."""
    least = _NOTHING * float(np.max(cells))
    return np.asarray(np.maximum(cells - np.quantile(cells, 0.05), 0.0) + least)


def _take_turns(features: Floats, turns: int, least: Floats) -> bool:
    """Whether a feature differs by turn, more than chance and more than the least that matters."""
    turn = np.arange(len(features)) % turns
    counts = np.bincount(turn)[:, None]
    means = np.array([features[turn == each].mean(axis=0) for each in range(turns)])
    between = (counts * (means - features.mean(axis=0)) ** 2).sum(axis=0)
    within = ((features - means[turn]) ** 2).sum(axis=0)
    free = len(features) - turns
    ratio = between / (turns - 1) / (within / free + _NOTHING**2)
    matters = np.sqrt(between / len(features)) > least
    return bool((matters & (f.sf(ratio, turns - 1, free) < _CHANCE)).any())
