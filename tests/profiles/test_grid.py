from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.profiles import Samples
from metronome_opt.profiles.grid import regrid


@given(st.lists(st.floats(0, 1000), min_size=4, max_size=40), st.integers(1, 4))
def test_what_was_sent_stays_the_same(rates: list[float], joined: int) -> None:
    whole = len(rates) // joined * joined
    values = np.array(rates[:whole])
    grid = regrid(Samples(np.arange(1.0, whole + 1), values), float(joined))
    assert grid.rates == pytest.approx(values.reshape(-1, joined).mean(axis=1), abs=1e-6)


def test_cells_that_were_hardly_measured_are_unknown() -> None:
    times = np.array([1.0, 2.0, 3.0, 7.0, 8.0])
    grid = regrid(Samples(times, np.full(5, 6.0)), 2.0)
    # 0 to 3 and 6 to 8 are measured; of the second cell that is just half.
    assert grid.start_s == 0.0
    assert grid.rates[[0, 1, 3]].tolist() == [6.0, 6.0, 6.0]
    assert np.isnan(grid.rates[2])


def test_uneven_samples_are_spread_over_what_they_cover() -> None:
    samples = Samples(np.array([0.5, 2.0]), np.array([8.0, 2.0]), np.array([0.5, 1.5]))
    assert regrid(samples, 1.0).rates.tolist() == [(0.5 * 8 + 0.5 * 2) / 1, 2.0]
