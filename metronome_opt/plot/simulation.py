"""Distributions of completion times of simulated jobs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from metronome_opt.plot import style
from metronome_opt.plot.picture import new_axes


@rc_context(style.SHEET)
def plot_completion(times: Mapping[str, ArrayLike], *, ax: Axes | None = None) -> Axes:
    """Draw the share of jobs that are complete within a time, a curve for each policy.

    Parameters
    ----------
    times
        Seconds from arrival to end of every job of all runs, by policy; NaN for a job that did not
        finish. Such a job counts among all jobs, so its curve ends below 1.
    ax
        Axes to draw on; new ones if None.
    """
    ax = ax or new_axes()
    policies = style.in_order(times)
    for policy, line in style.line_styles(policies).items():
        seconds = np.asarray(times[policy], dtype=np.float64)
        finished = np.isfinite(seconds)
        missing = np.count_nonzero(~finished)
        more = f" ({missing:,} of {seconds.size:,} jobs did not finish)" if missing else ""
        # The curve starts at 0, and a job that did not finish never raises it.
        ends = np.concatenate(([0.0], np.sort(seconds[finished])))
        shares = np.arange(len(ends)) / max(1, seconds.size)
        ax.step(ends, shares, where="post", label=policy + more, **line)
    ax.set(xlabel="completion time, arrival to end (s)", ylabel="share of jobs complete")
    ax.set(xlim=(0, None), ylim=(0, 1.02))
    ax.legend()
    return ax
