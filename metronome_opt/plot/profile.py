"""Samples of a job, folded by its cycles, and the bursts that were found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metronome_opt.plot import style
from metronome_opt.plot.axes import single

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture
    from metronome_opt.profiles import Profile, Samples

_SAMPLES: dict[str, Any] = {
    "linestyle": "none",
    "marker": ".",
    "markersize": 3.0,
    "color": style.look(1).colour,
    "alpha": 0.6,
    "rasterized": True,
}
_BURSTS: dict[str, Any] = {"color": style.INK, "linewidth": 1.4}
_MOST_SAMPLES = 5000


def plot_profile(samples: Samples, profile: Profile) -> Picture:
    """Draw each sample at the time since the first burst of its cycle, and the bursts as steps.

    Where no period was found the samples are drawn over time, below the reason.

    Parameters
    ----------
    samples, profile
        What was measured, and what `metronome_opt.profiles.profile` said of it.
    """
    if profile.period_ms is None or profile.origin_s is None:
        return _plot_over_time(samples, str(profile.reason))
    period = profile.period_ms
    figure, axes = single(
        f"period {period:,.4g} ± {profile.period_error_ms:,.2g} ms, "
        f"{style.counted(len(profile.bursts), 'burst')}, duty {profile.duty:.1%}"
    )
    since, rates = _folded(samples, profile.origin_s, period)
    axes.plot(since, rates / 1000, **_SAMPLES, label="samples")
    times, levels = _outline(profile, period)
    axes.plot(times, levels / 1000, **_BURSTS, label="bursts")
    axes.set_xlabel("ms since the first burst of the cycle", fontsize=style.TEXT)
    axes.set_ylabel("Gbit/s", fontsize=style.TEXT)
    axes.legend(fontsize=style.SMALL, frameon=False)
    figure.settle()
    return figure


def _plot_over_time(samples: Samples, reason: str) -> Picture:
    figure, axes = single(reason)
    kept = slice(None, None, max(1, len(samples) // _MOST_SAMPLES))
    start = samples.times_s[0] if len(samples) else 0.0
    axes.plot(samples.times_s[kept] - start, samples.rates_mbps[kept] / 1000, **_SAMPLES)
    axes.set_xlabel("s since the first sample", fontsize=style.TEXT)
    axes.set_ylabel("Gbit/s", fontsize=style.TEXT)
    figure.settle()
    return figure


def _folded(samples: Samples, origin_s: float, period: float) -> tuple[Any, Any]:
    """Return ms since the first burst, a quarter of a period around a cycle, and rates."""
    from metronome_opt.profiles.period import find_cycles

    folded = find_cycles(samples).folded
    begun = max(0, int(np.searchsorted(folded.begins_s, origin_s)) - 1)
    since = 1000 * (folded.since_s - (origin_s - folded.begins_s[begun]))
    # Cycles begin amid silence; what lies before the first burst is shown at the end.
    since = np.where(since < -period / 4, since + period, since)
    kept = slice(None, None, max(1, len(since) // _MOST_SAMPLES))
    return since[kept], folded.rates[kept]


def _outline(profile: Profile, period: float) -> tuple[Any, Any]:
    """Return the corners of the bursts of a period, from a quarter of it before the first."""
    times, rates, end = [-period / 4], [0.0], -period / 4
    for burst in profile.bursts:
        if burst.start_ms > end:
            times += [end, burst.start_ms]
            rates += [0.0, 0.0]
        end = burst.start_ms + burst.length_ms
        times += [burst.start_ms, end]
        rates += [burst.rate_mbps, burst.rate_mbps]
    return np.array([*times, end, max(period, end)]), np.array([*rates, 0.0, 0.0])
