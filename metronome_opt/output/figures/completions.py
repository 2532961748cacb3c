"""Completion times of simulations, by policy: distribution functions and boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from metronome_opt.errors import InputError
from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import new_figure

_WIDTH, _HEIGHT, _PER_POLICY = 9.0, 2.6, 0.2  # inches


@rc_context(style.SHEET)
def plot_completions(jobs: Mapping[str, pd.DataFrame]) -> Figure:
    """Draw completion times: shares of jobs that are done in time, and quartiles beside them.

    A curve of a policy ends below 100 % if jobs did not finish. Boxes reach from quartile to
    quartile with the median inside, whiskers from the 5th to the 95th percentile;
    a dot is the mean.

    Parameters
    ----------
    jobs
        By policy: a table with a column ``completion_s``, a row for each job, such as
        `SimulationResult.jobs`, or the table of jobs of a study.

    Raises
    ------
    InputError
        If no job of any policy has finished.
    """
    policies = style.sort_policies(jobs)
    done = {name: np.sort(jobs[name]["completion_s"].dropna().to_numpy(float)) for name in policies}
    if not any(map(len, done.values())):
        raise InputError("jobs: none has finished; there is no completion time to draw")
    figure = new_figure(_WIDTH, _HEIGHT + _PER_POLICY * len(policies), "Completion times")
    curves, boxes = figure.subplots(1, 2)
    for number, (name, seconds) in enumerate(done.items()):
        share = 100 * np.arange(len(seconds) + 1) / max(1, len(jobs[name]))
        ends = np.concatenate(([0.0], seconds))
        colour = style.line_colour(number)
        curves.step(ends, share, where="post", color=colour, label=name, gid=f"completions-{name}")
    curves.set(xlim=0, ylim=(0, 102), xlabel="completion (s)", ylabel="jobs done (%)")
    curves.legend(frameon=False, loc="lower right")
    drawn = boxes.boxplot(
        list(done.values())[::-1],
        orientation="horizontal",
        tick_labels=list(done)[::-1],
        whis=(5, 95),
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        medianprops={"color": style.INK},
        meanprops={
            "marker": "o",
            "markerfacecolor": style.INK,
            "markeredgecolor": style.INK,
            "markersize": 3,
        },
    )
    for number, box in enumerate(drawn["boxes"][::-1]):
        box.set(facecolor=style.line_colour(number), alpha=0.6)
    boxes.set(xlabel="completion (s)", xlim=0)
    for axes in (curves, boxes):
        axes.grid(axis="x")
    return figure
