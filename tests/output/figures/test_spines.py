"""The figure of uplinks has a row for each spine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from metronome_opt import allocate, solve
from metronome_opt.errors import InputError
from metronome_opt.plot import plot_spines, save_figure
from tests.fabrics import fabric, ring, scene


def test_each_used_uplink_has_a_row_and_each_result_a_column(tmp_path: Path) -> None:
    """Three rings by one spine, then by both."""
    jobs = [ring(name, (at, 3 + at)) for at, name in enumerate("abc")]
    cluster = fabric(each=3)
    first = [{**job, "paths": [[0], [0]]} for job in jobs]
    before = solve(scene(cluster, *first), "unshifted", "contention")
    figure = plot_spines(
        scene(cluster, *jobs), {"before": before, "after": allocate(scene(cluster, *jobs))}
    )
    panels = figure.axes
    assert len(panels) == 8
    assert [axes.get_title(loc="left") for axes in panels[:2]] == ["before", "after"]
    assert [axes.get_ylabel() for axes in panels[::2]] == [
        f"rack-{rack}-uplink-{spine}" for rack in (0, 1) for spine in (0, 1)
    ]
    highest = [
        max(
            float(np.nanmax(patch.get_data()[0]))
            for patch in axes.patches
            if isinstance(patch, StepPatch)
        )
        for axes in panels[:2]
    ]
    assert highest == pytest.approx(
        [3.6, 1.2]
    )  # Gbit/s of three jobs at once, and of one at a time
    save_figure(figure, tmp_path / "spines.png")


def test_a_fabric_without_a_choice_has_no_figure() -> None:
    made = scene({**fabric(routing="ecmp"), "spines": 1}, ring("a", (0, 2)))
    with pytest.raises(InputError, match="no flow crosses a spine"):
        plot_spines(made, {"one": solve(made, "unshifted", "contention")})
    with pytest.raises(InputError, match="no flow crosses a spine"):
        plot_spines(made, {})
