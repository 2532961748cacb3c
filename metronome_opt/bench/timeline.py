"""One link as it happened, under two policies: records do not hold it, so it is simulated again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.errors import counted
from metronome_opt.plot.style import in_order
from metronome_opt.plot.timeline import LinkTrace, plot_link
from metronome_opt.simulate import Run, simulate
from metronome_opt.simulate.study import Cell, Study

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture
    from metronome_opt.scenario import Scenario

_PREFERRED = ("default", "metronome")

_ITERATIONS = 6  # of the slowest job, so that a pattern can be seen to repeat
_LONGEST_MS = 6000.0  # shown; bursts of the fast jobs could not be told apart in more
_CANDIDATES = 8  # links that are looked at
_MOST_NODES = 512  # of a cluster that is simulated again for a picture
_FIRST_S = 300.0  # simulated at first; twice as long until the link is shared for long enough


class LinkPicture(NamedTuple):
    """A picture of a link and what it shows, or the words that there is none."""

    words: str
    picture: Picture | None = None


class _Stretch(NamedTuple):
    """A while in which the same jobs are placed across a link.

    Attributes
    ----------
    counts
        How many jobs there are, by policy.
    window_ms
        In how much of it the slowest of them, under the first policy, iterates a few times.
    """

    begin_ms: float
    end_ms: float
    counts: tuple[int, ...]
    window_ms: float

    @property
    def is_long(self) -> bool:
        """Whether a pattern can be seen to repeat."""
        return self.end_ms - self.begin_ms >= self.window_ms

    @property
    def merit(self) -> tuple[bool, int, int, float]:
        """What makes it worth being shown: long enough, with jobs under every policy."""
        return self.is_long, min(self.counts), self.counts[0], self.end_ms - self.begin_ms


def draw_link(study: Study, records: Sequence[SimulationRecord]) -> LinkPicture:
    """Return a picture of a link that jobs share, or the words that there is none.

    It is of the first cell and seed, and of `_PREFERRED` policies, or else of the first two there
    are. Of the links that are contended for the longest time under the first policy, or busiest if
    none is contended, the first is shown that jobs share under all; of the time, the middle of when
    most jobs are placed across it. The same records give the same picture.

    Parameters
    ----------
    study
        The one that the records are of.
    records
        In the order of the report. Those that were not done are left out.
    """
    shown = _records_to_show(records)
    if not shown:
        return LinkPicture("No link is shown as it happened: nothing was done.")
    if len(study.cluster.listed.hosts) > _MOST_NODES:
        words = f"No link is shown as it happened: of more than {_MOST_NODES} nodes it takes long."
        return LinkPicture(words)
    first = shown[0]
    links = pd.DataFrame(dict(first.links or {})).set_index("link")
    by_contention = links.sort_values(["contended_s", "busy_s"], ascending=False, kind="stable")
    candidates = [str(link) for link in by_contention.index[:_CANDIDATES]]
    cell = Cell(first.cell)
    where = f"{cell.label if first.cell else first.study} with seed {first.seed}"
    runs = _shared_beginnings(study.scenario(cell, first.seed), shown, candidates)
    stretches = {link: _best_stretch(list(runs.values()), link) for link in candidates}
    link = max(candidates, key=lambda link: _worth(stretches[link]))
    stretch = stretches[link]
    if stretch is None:
        return LinkPicture(
            f"No link is shown as it happened: under {first.policy}, no two jobs share {link}, "
            f"which has more contention or bursts than any other, in {where}."
        )
    if not min(stretch.counts):
        return LinkPicture(
            f"No link is shown as it happened: those that jobs share under {first.policy} are not "
            f"used under {shown[-1].policy}, in {where}."
        )
    middle = (stretch.begin_ms + stretch.end_ms) / 2
    half = min(stretch.window_ms, stretch.end_ms - stretch.begin_ms) / 2
    begin, end = math.floor(middle - half), math.ceil(middle + half)
    traces = {policy: run.trace for policy, run in runs.items()}
    figure = plot_link(LinkTrace(link, float(links["capacity_mbps"][link]), traces, begin, end))
    crossing = " and ".join(
        f"{counted(count, 'job')} under {policy}"
        for policy, count in zip(runs, stretch.counts, strict=True)
    )
    return LinkPicture(
        f"Link {link} as it happened in {where}; it is crossed by {crossing}.", figure
    )


# ------------------------------------------------------------------ what is shown


def _worth(stretch: _Stretch | None) -> tuple[bool, bool, bool]:
    """Return whether a link has something to show: long enough, used and shared under all."""
    if stretch is None:
        return False, False, False
    return min(stretch.counts) > 0, stretch.is_long, min(stretch.counts) > 1


def _records_to_show(records: Sequence[SimulationRecord]) -> list[SimulationRecord]:
    """Return the records of the first cell and seed that has both policies, in their order."""
    done = [record for record in records if record.went_well]
    there = in_order({record.policy for record in done})
    policies = _PREFERRED if set(_PREFERRED) <= set(there) else there[:2]
    scenes: dict[tuple[object, int], dict[str, SimulationRecord]] = {}
    for record in done:
        if record.policy in policies:
            scenes.setdefault((record.cell, record.seed), {})[record.policy] = record
    scene: Mapping[str, SimulationRecord] = max(scenes.values(), key=len, default={})
    return [scene[policy] for policy in policies if policy in scene]


# ------------------------------------------------------------------ simulated again


def _shared_beginnings(
    scenario: Scenario, records: Sequence[SimulationRecord], links: Sequence[str]
) -> dict[str, Run]:
    """Return beginnings of runs, so long that jobs share the first link under the first policy."""
    first, *others = records
    horizon_s = _FIRST_S
    while True:
        run = _again(scenario, first, links, horizon_s)
        stretch = _best_stretch([run], links[0])
        shared = stretch is not None and stretch.is_long
        if shared or horizon_s >= (first.makespan_s or 0.0):
            break
        horizon_s *= 2
    again = {other.policy: _again(scenario, other, links, horizon_s) for other in others}
    return {first.policy: run, **again}


def _again(
    scenario: Scenario, record: SimulationRecord, links: Sequence[str], horizon_s: float
) -> Run:
    """Return the beginning of a run, with what happens on some links."""
    end = min(horizon_s, record.conditions.horizon_s or math.inf)
    return simulate(
        scenario,
        record.policy,
        seed=record.seed,
        conditions=record.conditions.model_copy(update={"horizon_s": end}),
        watch=links,
    )


def _best_stretch(runs: Sequence[Run], link: str) -> _Stretch | None:
    """Return the stretch that is most worth being shown; None if no two jobs share the link."""
    spans = [_spans(run, link) for run in runs]
    moments = sorted({moment for each in spans for span in each.values() for moment in span})
    iterations = runs[0].jobs.set_index("job")
    iteration = iterations["iteration_mean_ms"].fillna(iterations["ideal_ms"])
    stretches = []
    for begin, end in pairwise(moments):
        there = [
            [job for job, (since, until) in each.items() if since <= begin and end <= until]
            for each in spans
        ]
        if len(there[0]) > 1:
            window = min(_LONGEST_MS, _ITERATIONS * float(iteration[there[0]].max()))
            stretches.append(_Stretch(begin, end, tuple(map(len, there)), window))
    return max(stretches, key=lambda stretch: stretch.merit, default=None)


def _spans(run: Run, link: str) -> dict[str, tuple[float, float]]:
    """Return from when to when each job uses a watched link, in ms: its first and last burst.

    A job that is not over uses it to the end.
    """
    jobs = run.jobs.set_index("job")
    here = run.trace["link"] == link
    mine = run.trace[here & run.trace["job"].isin(jobs.index)]  # other traffic is no job
    times = mine.groupby("job")["time_ms"].agg(["min", "max"])
    return {
        str(job): (begin, end if jobs["finished"][job] else 1000 * run.makespan_s)
        for job, begin, end in times.itertuples()
    }
