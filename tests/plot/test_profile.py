from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.throughput import measure
from metronome_opt.plot import save_figure
from metronome_opt.plot.simulation import plot_profile
from metronome_opt.profiles import profile
from tests.profiles.cases import job, samples_of

SAMPLES = measure(job(cycles=60, jitter=0.05), 0.02, snr_db=30)


def test_samples_lie_on_the_outline_of_the_bursts(tmp_path: Path) -> None:
    found = profile(SAMPLES)
    figure = plot_profile(SAMPLES, found)
    samples, outline = figure.axes[0].get_lines()
    since, rates = np.asarray(samples.get_xdata()), np.asarray(samples.get_ydata())
    assert found.period_ms is not None
    assert -found.period_ms / 4 <= since.min() < since.max() < 1100
    inside = (since > 30) & (since < 270)
    assert rates[inside] == pytest.approx(10, abs=1.5)
    assert rates[(since < -30) | ((since > 330) & (since < 750))] == pytest.approx(0, abs=1.5)
    corners = np.column_stack((np.asarray(outline.get_xdata()), np.asarray(outline.get_ydata())))
    assert corners[2:6, 0] == pytest.approx([0, 0, 300, 300], abs=5)
    assert corners[2:6, 1] == pytest.approx([0, 10, 10, 0], abs=0.2)
    save_figure(figure, tmp_path / "profile.svg")
    assert f"duty {found.duty:.1%}" in (tmp_path / "profile.svg").read_text(encoding="utf-8")


def test_without_a_period_samples_are_shown_over_time_below_the_reason() -> None:
    samples = samples_of(np.random.default_rng(0).uniform(1000, 2000, 300))
    figure = plot_profile(samples, profile(samples))
    assert figure.get_suptitle().startswith("not periodic")
    (line,) = figure.axes[0].get_lines()
    assert np.asarray(line.get_ydata()) == pytest.approx(samples.rates_mbps / 1000)
