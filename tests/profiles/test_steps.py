from __future__ import annotations

import numpy as np
import pytest

from metronome_opt.profiles.steps import Steps, derivatives, share_after

STEPS = Steps(np.array([1.0, 2.0]), np.array([0.05, 0.2]), np.array([0.0, 10.0, 0.0]))
MIDDLES = np.linspace(0.2, 3.0, 57)


def test_spans_see_the_mean_over_cycles_whose_edges_vary() -> None:
    chance = np.random.default_rng(0)
    rise = 1.0 + 0.05 * chance.standard_normal(40_000)
    fall = 2.0 + 0.2 * chance.standard_normal(40_000)
    for middle in (0.8, 1.0, 1.5, 2.0, 2.2):
        begin, end = middle - 0.15, middle + 0.15
        covered = np.clip(end, rise, fall) - np.clip(begin, rise, fall)
        seen = STEPS.seen(np.array([middle]), 0.3)[0]
        assert seen == pytest.approx(10 * covered.mean() / 0.3, abs=0.1)


def test_derivatives_are_those_of_shares() -> None:
    edges, blurs, small = STEPS.edges_s, STEPS.blurs_s, 1e-5
    by_edge, by_blur = derivatives(MIDDLES, 0.3, edges, blurs)
    for found, moved in ((by_edge, (small, 0.0)), (by_blur, (0.0, small))):
        ahead, behind = (
            share_after(MIDDLES, 0.3, edges + sign * moved[0], blurs + sign * moved[1])
            for sign in (1, -1)
        )
        assert found == pytest.approx((ahead - behind) / (2 * small), abs=1e-4)
