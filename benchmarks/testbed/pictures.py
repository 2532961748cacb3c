"""Bursts as they were sent, and simulated against real iteration times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from math import exp
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from benchmarks.testbed.agreement import as_run, times_of
from benchmarks.testbed.cases import Case
from benchmarks.testbed.lasting import comes_apart
from benchmarks.testbed.meeting import for_queue
from benchmarks.testbed.modes import Mode
from benchmarks.testbed.run import BedRun
from benchmarks.testbed.simulated import play_case
from metronome_opt.engine.conditions import TCP, TcpShares
from metronome_opt.errors import InputError, quote
from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Bursts = Mapping[str, Sequence[tuple[float, float]]]
"""By job: beginnings and ends, ms."""

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
_MARKS = {"cubic": "o", "reno": "s", "bbr": "^", "ecn": "D"}
_RATES = {200: "#0072B2", 1000: "#E69F00", 2000: "#D55E00"}
_TICKS = (6, 9, 24, 36, 60, 90, 120, 180)
_NEVER = 500
_SHOWN = {"together": "top", "three": "bottom"}
_WIDTH, _ROW = 10.0, 0.22  # inches


def draw_case(
    case: Case, runs: Sequence[BedRun], modes: Sequence[Mode], *, periods: int = 12
) -> Figure:
    """Draw the bursts of one run of a case in each mode, as sent and as simulated.

    Parameters
    ----------
    periods
        How many of the longest period are shown.

    Raises
    ------
    InputError
        If there is no run of the case in one of the modes.
    """
    panels: dict[str, Bursts] = {}
    for mode in modes:
        run = next((run for run in runs if (run.case, run.mode) == (case.name, mode)), None)
        if run is None:
            raise InputError(f"there is no undisturbed run of {quote(case.name)}, {mode}, to draw")
        panels[f"{mode}, on the network"] = {
            job: [(begin, end) for _, begin, end in seen.bursts_ms]
            for job, seen in run.jobs.items()
        }
        played = play_case(case, mode, run.offsets, "tcp", 0, bursts=True, periods=run.periods)
        panels[f"{mode}, simulated"] = {job: seen.bursts_ms for job, seen in played.items()}
    figure = new_figure(_WIDTH, _ROW * len(panels) * (len(case.jobs) + 1.6) + 0.9)
    figure.suptitle(f"{case.name}, {case.congestion}", fontsize=style.TITLE, parse_math=False)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (heading, bursts) in zip(grid, panels.items(), strict=True):
        draw_rows(axes, bursts, _strangers(case))
        axes.set_title(heading, fontsize=style.TEXT, loc="left", parse_math=False)
        axes.set_xlim(0, periods * max(job.period for job in case.jobs))
    grid[-1].set_xlabel("time (ms)", fontsize=style.TEXT)
    return figure


def _strangers(case: Case) -> set[frozenset[str]]:
    """Return the pairs of jobs that have no limited uplink in common."""
    links = {
        name: set(case.racks(job)) & set(case.limited)
        for name, job in zip(case.job_names, case.jobs, strict=True)
    }
    return {
        frozenset(pair) for pair in combinations(links, 2) if not links[pair[0]] & links[pair[1]]
    }


def draw_rows(axes: Axes, bursts: Bursts, strangers: Collection[frozenset[str]]) -> None:
    """Draw bursts over time, a row for each job; where two meet on a link they are black."""
    for row, (job, mine) in enumerate(bursts.items()):
        colour = _COLOURS[row % len(_COLOURS)]
        axes.broken_barh([(a, b - a) for a, b in mine], (row - 0.4, 0.8), facecolors=colour)
        met = [
            (max(a, c), min(b, d))
            for a, b in mine
            for other, theirs in bursts.items()
            if other != job and frozenset((job, other)) not in strangers
            for c, d in theirs
            if c < b and a < d
        ]
        axes.broken_barh([(a, b - a) for a, b in met], (row - 0.4, 0.8), facecolors="black")
    axes.set_yticks(range(len(bursts)), list(bursts))
    axes.set_ylim(len(bursts) - 0.5, -0.5)
    axes.tick_params(labelsize=style.SMALL)
    axes.spines[["top", "right"]].set_visible(False)


def draw_apart(
    cases: Sequence[Case],
    runs: Sequence[BedRun],
    met: pd.DataFrame,
    simulated: Mapping[str, float],
) -> Figure:
    """Draw when free jobs come apart, and shares of bursts that meet, over burst by queue.

    Parameters
    ----------
    met
        Of `benchmarks.testbed.meeting.meetings`.
    simulated
        When jobs of a case come apart under ``tcp``.
    """
    shown = {case.name: case for case in cases if case.name in _SHOWN}
    figure = new_figure(_WIDTH, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for name, where in _SHOWN.items():
        left.axhline(simulated[name], color=style.INK, linewidth=0.8, linestyle="--")
        text = f"simulated, tcp, {len(shown[name].jobs)} jobs"
        left.text(240, simulated[name], text, fontsize=style.SMALL, va=where, ha="right")
    marks: dict[str, Artist] = {}
    for run in runs:
        if run.case not in shown or run.mode != "free":
            continue
        case = as_run(shown[run.case], run)
        times = {name: times_of(job)[1:] for name, job in run.jobs.items()}
        colour, three = _RATES[case.uplink_mbps], len(case.jobs) > 2
        label = f"{run.congestion}, {case.uplink_mbps} Mbit/s" + (", 3 jobs" if three else "")
        marks[label] = left.scatter(
            case.burst_over_queue,
            comes_apart(case, times) or _NEVER,
            s=34,
            marker=_MARKS[run.congestion],
            facecolors="none" if three else colour,
            edgecolors=colour,
            label=label,
        )
    left.axhspan(300, 800, color=style.PAPER, zorder=0)
    left.text(240, 310, "not within 120 s", fontsize=style.SMALL, va="bottom", ha="right")
    left.set_ylim(0.8, 800)
    left.set_ylabel("iterations until free jobs come apart", fontsize=style.TEXT)
    for row in met.to_dict("records"):
        low, high = _around(TcpShares(row["spread"], row["newcomer"]))
        colour = _RATES[row["uplink_mbps"]]
        right.plot([row["burst over queue"]] * 2, [low, high], color=colour, linewidth=0.8)
        mark = _MARKS[row["congestion"]]
        right.scatter(row["burst over queue"], row["newcomer"], s=34, marker=mark, color=colour)
    right.axhspan(*_around(TCP), color=style.PAPER, zorder=0)
    right.axhline(TCP.newcomer, color=style.INK, linewidth=0.8, linestyle="--")
    right.text(240, TCP.newcomer, "tcp", fontsize=style.SMALL, va="bottom", ha="right")
    overs = range(7, 200)
    right.plot(overs, [for_queue(over).newcomer for over in overs], color=style.INK, linewidth=0.8)
    right.set_ylabel("share of the later burst over that of the earlier", fontsize=style.TEXT)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(5, 250)
        axes.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
        axes.minorticks_off()
        axes.tick_params(labelsize=style.SMALL)
        axes.set_xlabel("burst over queueing time", fontsize=style.TEXT)
        axes.grid(color="#dddddd", linewidth=0.5)
        axes.set_axisbelow(True)
    legend_below(figure, [marks[label] for label in sorted(marks)])
    return figure


def _around(tcp: TcpShares) -> tuple[float, float]:
    """Return the share of a newcomer over the other's, a deviation below and above the middle."""
    factor = exp(2**0.5 * tcp.spread)
    return tcp.newcomer / factor, tcp.newcomer * factor


def draw_agreement(tables: Mapping[str, pd.DataFrame], *, title: str) -> Figure:
    """Draw simulated against real mean iteration times over the period, a panel for each table.

    Parameters
    ----------
    tables
        Of `benchmarks.testbed.agreement.compare`, by way of sharing.
    """
    figure = new_figure(_WIDTH, 5.0)
    figure.suptitle(title, fontsize=style.TITLE, parse_math=False)
    panels = figure.subplots(1, len(tables), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (sharing, table) in zip(panels, tables.items(), strict=True):
        axes.grid(color="#dddddd", linewidth=0.5)
        real, simulated = (table[name] / table["period_ms"] for name in ("real_ms", "simulated_ms"))
        ends = [0.97, 1.03 * max(real.max(), simulated.max())]
        axes.plot(ends, ends, color=style.INK, linewidth=0.8)
        for sign in (0.9, 1.1):
            axes.plot(ends, [sign * end for end in ends], color="#999999", linewidth=0.6)
        for (congestion, free), group in table.groupby(["congestion", table["mode"] == "free"]):
            axes.scatter(
                real[group.index],
                simulated[group.index],
                s=18,
                marker=_MARKS[str(congestion)],
                facecolors="#D55E00" if free else "none",
                edgecolors="#D55E00" if free else "#0072B2",
                linewidths=0.8,
                label=f"{congestion}, {'free' if free else 'gated'}",
            )
        axes.set_title(f"sharing {sharing}", fontsize=style.TEXT)
        axes.set_xlabel("on the network: mean iteration / period", fontsize=style.TEXT)
    panels[0].set_ylabel("simulated", fontsize=style.TEXT)
    panels[-1].legend(fontsize=style.SMALL, frameon=False, loc="upper left")
    return figure
