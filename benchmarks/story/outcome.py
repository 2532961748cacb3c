"""Results of a story: iteration times by step and job, and bursts around each event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.story.bed import STEPS_FILE, Step
from benchmarks.story.jobs import JOBS
from benchmarks.testbed.pictures import draw_rows
from metronome_opt.output.figures import style
from metronome_opt.output.figures.picture import new_figure

_LAST = 0.5  # of a step, in which it has settled
_BEFORE_S, _AFTER_S = 3.0, 5.0
_WIDTH, _ROW = 13.0, 1.05  # inches

_STRANGERS = {
    frozenset((one.name, other.name))
    for one, other in combinations(JOBS.values(), 2)
    if not one.racks & other.racks
}


def read_bursts(folder: Path) -> dict[str, pd.DataFrame]:
    """Return what the first rank of each job recorded: ``at`` in s, the rest in ms."""
    return {
        name: pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
        for name, job in JOBS.items()
        if (path := folder / f"{job.pods[0]}.jsonl").exists()
    }


def read_steps(folder: Path) -> list[Step]:
    """Return the steps of a story as they happened."""
    return [Step(*each) for each in json.loads((folder / STEPS_FILE).read_text())]


def table(folders: Mapping[str, Path]) -> pd.DataFrame:
    """Return mean iteration times in ms over the last half of each step.

    Parameters
    ----------
    folders
        Of stories of the same steps, by what their columns are to be called.

    Returns
    -------
    pandas.DataFrame
        A row for each step and each job in it, with a column ``alone`` and one for each story.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for heading, folder in folders.items():
        bursts = read_bursts(folder)
        for step in read_steps(folder):
            since = step.end - _LAST * (step.end - step.begin)
            for job, alone in step.alone_ms.items():
                seen = bursts[job]
                settled = seen[(seen["at"] >= since) & (seen["at"] < step.end)]
                row = found.setdefault((step.name, job), {"alone": alone})
                row[heading] = float(settled["iteration_ms"].mean())
    shown = pd.DataFrame.from_dict(found, orient="index")
    shown.index = pd.MultiIndex.from_tuples(shown.index, names=["step", "job"])
    return shown


def lateness(folder: Path) -> tuple[float, float]:
    """Return how late sleeping ranks woke up in ms: 95 of 100 at most, and the latest."""
    late = [
        float(line)
        for job in JOBS.values()
        for pod in job.pods
        if (path := folder / f"{pod}.log").exists()
        for line in path.read_text().splitlines()
        if line.replace(".", "").isdigit()
    ]
    return float(np.quantile(late, 0.95)), max(late)


def draw(folders: Mapping[str, Path]) -> Figure:
    """Draw bursts as they were sent around each event, a row of panels for each event.

    Where bursts of two jobs meet on an uplink they are black.
    """
    stories = {heading: (read_steps(path), read_bursts(path)) for heading, path in folders.items()}
    steps = next(iter(stories.values()))[0]
    figure = new_figure(_WIDTH, _ROW * len(steps) + 1.2)
    figure.suptitle("Bursts as sent, around each event", fontsize=style.TITLE)
    grid = figure.subplots(len(steps), len(stories), sharex=True, squeeze=False)
    for column, (heading, (told, bursts)) in enumerate(stories.items()):
        for axes, step in zip(grid[:, column], told, strict=True):
            draw_rows(axes, _around(bursts, step.begin), _STRANGERS)
            axes.axvline(0, color=style.INK, linewidth=0.8)
            axes.set_xlim(-_BEFORE_S, _AFTER_S)
            axes.set_title(f"{step.name}, {heading} us", fontsize=style.SMALL, loc="left")
        grid[-1, column].set_xlabel("since the event (s)", fontsize=style.TEXT)
    return figure


def _around(
    bursts: Mapping[str, pd.DataFrame], moment: float
) -> dict[str, list[tuple[float, float]]]:
    """Return beginnings and ends of bursts near a moment, in s since then."""
    near = {}
    for job, seen in bursts.items():
        begins = seen["at"] - moment
        ends = begins + seen["burst_ms"] / 1000
        shown = (ends > -_BEFORE_S) & (begins < _AFTER_S)
        near[job] = list(zip(begins[shown], ends[shown], strict=True))
    return near
