"""The distribution of completion times, a curve for each policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metronome_opt.plot import style
from metronome_opt.plot.axes import WIDTH, single
from metronome_opt.plot.simulation import looks

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

Floats = NDArray[np.float64]

_WIDE = 30.0  # times between the 1st and the 99th percentile that ask for a logarithmic axis


def plot_completion(times: Mapping[str, ArrayLike], *, title: str) -> Picture:
    """Draw the share of jobs that are complete within a time, a curve for each policy.

    Parameters
    ----------
    times
        Seconds from arrival to end of every job of all runs, by policy; NaN for a job that did not
        finish. Such a job counts among all jobs, so its curve ends below 1.
    title
        What stands above the figure.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator

    figure, axes = single(f"Completion times, {title}")
    policies = looks.in_order(times)
    lines = looks.lines(policies)
    known = {policy: _known(times[policy]) for policy in policies}
    everything = np.concatenate([np.empty(0), *known.values()])
    longest = float(everything.max()) if everything.size else 1.0
    wide = _is_wide(everything)
    entries = []
    for policy in policies:
        done, every = known[policy], max(1, np.size(times[policy]))
        steps = _steps(len(done))
        axes.step(
            np.concatenate(
                ([done[0] if wide and done.size else 0.0], done[steps - 1], [1.02 * longest])
            ),
            np.concatenate(([0], steps, [len(done)])) / every,
            where="post",
            gid=f"completion-{policy}",
            **lines[policy],
        )
        missing = every - len(done)
        more = f" ({missing:,} of {every:,} jobs did not finish)" if missing else ""
        entries.append(Line2D([], [], label=policy + more, **lines[policy]))
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:,.6g}")
    else:
        axes.set_xlim(0, 1.02 * longest)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("completion time, arrival to end (s)", fontsize=style.TEXT)
    axes.set_ylabel("share of jobs complete", fontsize=style.TEXT)
    style.add_legend(figure, entries, WIDTH)
    figure.settle()
    return figure


def _known(times: ArrayLike) -> Floats:
    values = np.asarray(times, dtype=np.float64)
    return np.sort(values[np.isfinite(values)])


def _steps(jobs: int) -> NDArray[np.int_]:
    """Return after how many jobs the curve is drawn: each of them, or evenly many of very many."""
    return np.unique(np.linspace(1, jobs, min(jobs, looks.MANY)).astype(int))


def _is_wide(times: Floats) -> bool:
    if not times.size:
        return False
    low, high = np.percentile(times, [1, 99])
    return bool(low > 0 and high > _WIDE * low)
