from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Job, Phase
from metronome_opt.plot import (
    busiest_link,
    plot_circle,
    plot_heatmap,
    plot_overview,
    plot_timeline,
    save_figure,
)
from tests.plot.examples import AFTER, BEFORE, HEAVY, LIGHT, instance

Plot = Callable[[Instance, Any, Any], object]

PLOTS: dict[str, Plot] = {
    "circle": lambda case, before, after: plot_circle(case, before, after, "node-0"),
    "timeline": lambda case, before, after: plot_timeline(case, before, after, "node-0"),
    "heatmap": plot_heatmap,
    "overview": plot_overview,
    "busiest": busiest_link,
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({LIGHT: 0}, AFTER, "before: offsets.*_heavy.*every job needs an offset"),
        (BEFORE, {}, "after: offsets.light.*every job needs an offset"),
        (BEFORE, AFTER | {"stranger": 0}, "after: offsets.*stranger.*no such job"),
        (BEFORE, AFTER | {LIGHT: 4}, r"after: offsets.light.*it must be in \[0, 4\)"),
        (BEFORE | {HEAVY: 1.0}, AFTER, "before: offsets.*heavy.*must be an integer, got 1.0"),
        (BEFORE | {LIGHT: "0"}, AFTER, "before: offsets.light: must be an integer, got '0'"),
    ],
)
def test_wrong_offsets(plot: Plot, before: object, after: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        plot(instance(), before, after)
    assert "\n" not in str(caught.value)


def test_a_stretch_is_held_to_its_limit() -> None:
    before, after = BEFORE, AFTER | {LIGHT: 4}
    with pytest.raises(InputError, match=r"^after: stretch\.light: stated 1"):
        plot_overview(instance(), before, after, stretch={LIGHT: 1})
    with pytest.raises(InputError, match=r"^after: stretch\.light: must be an integer, got 0\.5"):
        plot_overview(instance(), before, after, stretch={LIGHT: 0.5})  # type: ignore[dict-item]
    plot_overview(instance(), before, after, stretch={LIGHT: 1}, stretch_limit=Fraction(1, 4))


def test_unknown_link() -> None:
    for plot in (plot_circle, plot_timeline):
        with pytest.raises(InputError, match="no link 'nowhere'; there are 'spare', 'node-0'"):
            plot(instance(), BEFORE, AFTER, "nowhere")
    with pytest.raises(InputError, match="no link 'nowhere'"):
        plot_heatmap(instance(), BEFORE, AFTER, links=["node-0", "nowhere"])


def test_a_text_is_not_a_list_of_links() -> None:
    with pytest.raises(InputError, match="list of names, got the text 'node-0'"):
        plot_heatmap(instance(), BEFORE, AFTER, links="node-0")


def test_no_link_is_busiest_where_none_is_used() -> None:
    job = Job(name="j", period=4, phases=(Phase(start=0, length=1, rate=1),), links={})
    lonely = instance().replace(jobs=(job,))
    with pytest.raises(InputError, match="no job uses a link"):
        busiest_link(lonely, {"j": 0}, {"j": 0})


def test_integers_of_other_kinds_are_welcome() -> None:
    offsets = {LIGHT: np.int64(3), HEAVY: np.int32(2)}
    assert busiest_link(instance(), offsets, offsets) == "node-0"  # type: ignore[arg-type]


def test_import_leaves_matplotlib_alone() -> None:
    script = "import sys, metronome_opt.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_drawing_changes_no_global_state(tmp_path: Path) -> None:
    import matplotlib

    settings = dict(matplotlib.rcParams)
    save_figure(plot_overview(instance(), BEFORE, AFTER), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == settings
