"""Links between racks and spines over time, before and after paths and slots were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from metronome_opt.errors import InputError
from metronome_opt.output.figures import style
from metronome_opt.output.figures.demand import Drawing, drawn_slots, jobs_of, prepare
from metronome_opt.output.figures.picture import job_entries, legend_below, new_figure
from metronome_opt.problem.instance import Link
from metronome_opt.problem.result import Result
from metronome_opt.scenario.scenario_file import Scenario

_WIDTH, _ROW = 4.6, 0.75  # inches of a panel
_MOST = 24  # links in one figure
_CAPACITY: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "linestyle": (0, (5, 2))}


@rc_context(style.SHEET)
def plot_spines(scenario: Scenario, choices: Mapping[str, Result]) -> Figure:
    """Draw what each uplink of a rack carries, a row for each spine and a column for each result.

    Of what comes from the spines nothing is drawn. A line marks the capacity.

    Parameters
    ----------
    scenario
        Its cluster has several spines.
    choices
        Results of the scenario, by the titles of their columns.

    Raises
    ------
    InputError
        If there is no result, or no flow of any crosses a spine.
    """
    drawings = {}
    for title, result in choices.items():
        plan = result.schedule
        drawings[title] = prepare(result.instance, plan.offsets, plan.stretch, plan.stretch_limit)
    used = {link for each in drawings.values() for link, on in each.instance.jobs_on.items() if on}
    names = [up for ups in scenario.cluster.uplinks.values() for up in ups]
    rows = [name for name in names if scenario.cluster.spines > 1 and name in used][:_MOST]
    if not rows:
        raise InputError("choices: no flow crosses a spine; give results of a fabric of several")
    jobs = [job.name for job in scenario.jobs]
    figure = new_figure(_WIDTH * len(drawings), _ROW * len(rows) + 1.6, "Uplinks by spine")
    panels = figure.subplots(len(rows), len(drawings), sharex=True, sharey=True, squeeze=False)
    for column, (title, drawing) in zip(panels.T, drawings.items(), strict=True):
        links = {link.name: link for link in drawing.instance.links}
        column[0].set_title(title, fontweight="bold")
        column[-1].set_xlabel("time (ms)")
        slots = max(drawn_slots(drawing.instance, links[name]) for name in rows)
        for axes, name in zip(column, rows, strict=True):
            _draw(axes, drawing, links[name], slots, jobs)
    for axes, name in zip(panels[:, 0], rows, strict=True):
        axes.set_ylabel(style.shorten(name, 18), rotation=0, ha="right", va="center")
    entries = job_entries([style.shorten(job) for job in jobs], "no jobs")
    legend_below(figure, [*entries, Line2D([], [], **_CAPACITY, label="capacity")])
    return figure


def _draw(axes: Axes, drawing: Drawing, link: Link, slots: int, jobs: list[str]) -> None:
    """Stack the demands of jobs on a link, in Gbit/s; a job has one colour everywhere."""
    demand = drawing.demand(link, slots) / 1000
    edges = np.arange(slots + 1) * float(drawing.instance.slot_ms)
    below = np.zeros(slots)
    for job, rates in zip(jobs_of(drawing.instance, link), demand, strict=True):
        looks = style.job_style(jobs.index(job.name), len(job.phases))
        tops = np.where(rates > 0, below + rates, np.nan)
        axes.stairs(tops, edges, baseline=below, fill=True, **looks)
        below = below + rates
    axes.axhline(link.capacity / 1000, **_CAPACITY)
    axes.set(xlim=(0, edges[-1]), yticks=[])
