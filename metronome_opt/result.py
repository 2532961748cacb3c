"""The result of a solver: the schedule, what is proved of it, and how it was found."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance
from metronome_opt.schedule import Schedule, Status
from metronome_opt.verify import Evaluation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Stop(StrEnum):
    """Why a solver stopped."""

    PROVED = "proved"
    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    CALLBACK = "stopped by the callback"


@dataclass(frozen=True)
class Event:
    """One step of a run.

    Attributes
    ----------
    elapsed_s
        Seconds since the call.
    incumbent, bound
        Best value and best lower bound so far, None where there is none.
    source
        What found it.
    """

    elapsed_s: float
    incumbent: Fraction | None
    bound: Fraction | None
    source: str


@dataclass(frozen=True)
class Level:
    """One of several objectives that were optimised one after the other.

    Attributes
    ----------
    name
        Of the objective, or ``weighted sum``.
    value
        What it came to before later objectives used its tolerance; None for a cushion without
        limit.
    proved
        Whether nothing better is possible with the earlier ones held.
    tolerance
        By what share of it the later ones may make it worse.
    """

    name: str
    value: Fraction | None
    proved: bool
    tolerance: Fraction = Fraction(0)

    def __str__(self) -> str:
        shown = "no limit" if self.value is None else f"{float(self.value):,.6g}"
        loose = f", within {float(self.tolerance):.3g}" if self.tolerance else ""
        return f"{self.name} {shown} ({'proved' if self.proved else 'not proved'}{loose})"


@dataclass(frozen=True)
class Block:
    """A part of an instance that a solver treated apart.

    Attributes
    ----------
    jobs, links
        Their names; a job may be in several blocks, a link that stands for several alike is named
        like the first.
    value, bound
        Contention of the best schedule found for the block and best lower bound, None where there
        is none.
    found_by, proved_by
        What found the schedule, and what proved it; None if it is not proved.
    """

    jobs: tuple[str, ...]
    links: tuple[str, ...]
    value: Fraction | None
    bound: Fraction | None
    found_by: str
    proved_by: str | None


def relative_gap(value: Fraction | None, bound: Fraction | None) -> Fraction | None:
    """Return ``(value - bound) / value``, 0 where the value is 0, None where one is not known."""
    if value is None or bound is None:
        return None
    return (value - bound) / value if value else Fraction(0)


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of `solve`.

    Attributes
    ----------
    instance
        The problem.
    schedule
        The best schedule found, with its objectives as the judge computed them.
    stop
        Why the solver stopped; what is known of the schedule is its `status`.
    evaluation
        The judge's report: objectives and links.
    build_s, solve_s
        Seconds spent on making the model, and on the rest.
    trajectory
        Every new incumbent and every better bound, in order.
    notes
        What the user should know, a line each.
    blocks
        The parts that the solver treated apart, if it did, and which was proved by what.
    levels
        What was optimised, one after the other, and which of it is proved.
    unshifted_ms
        Iteration time of each job as simulated if nobody is shifted or gated; None unless slowdown
        was minimised.
    waits
        For each job the others that hold it up, each with its share of that, if slowdown was
        minimised; none for jobs that are hardly slower than their slots are apart.
    """

    instance: Instance
    schedule: Schedule
    stop: Stop
    evaluation: Evaluation
    build_s: float
    solve_s: float
    trajectory: tuple[Event, ...]
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    levels: tuple[Level, ...] = ()
    unshifted_ms: Mapping[str, float] | None = None
    waits: Mapping[str, Mapping[str, float]] | None = None

    @property
    def status(self) -> Status:
        """What is known of the schedule."""
        return self.schedule.status

    @property
    def offsets(self) -> Mapping[str, int]:
        """The offset of each job, in slots."""
        return self.schedule.offsets

    @property
    def objective(self) -> Fraction | None:
        """The value of the first objective; None for a cushion that nothing limits."""
        return {**self.evaluation.objectives, **self.schedule.objectives}[self.schedule.first]

    @property
    def stretch(self) -> Mapping[str, int]:
        """The idle slots at the end of each job's iterations."""
        return self.schedule.stretch

    @property
    def lower_bound(self) -> Fraction | None:
        """The best proved lower bound of the first objective, None where there is none."""
        return self.schedule.lower_bound

    @property
    def gap(self) -> Fraction | None:
        """``(objective - lower bound) / objective``, 0 where both are 0, None without a bound."""
        return relative_gap(self.objective, self.lower_bound)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per job; period, offset, stretch and wait are in slots.

        Where slowdown was minimised it says also who is gated, and iteration times in ms.
        """
        import pandas as pd

        rows = []
        for job in self.instance.jobs:
            offset = self.schedule.offsets[job.name]
            stretch = self.schedule.stretch.get(job.name, 0)
            row = {
                "job": job.name,
                "weight": job.weight,
                "period": job.period,
                "offset": offset,
                "stretch": stretch,
                "wait": (offset - job.ready) % (job.period + stretch),
            }
            if self.schedule.gated is not None:
                row["gated"] = self.schedule.gated[job.name]
            if self.schedule.expected_ms is not None:
                row["expected_ms"] = float(self.schedule.expected_ms[job.name])
            if self.unshifted_ms is not None:
                row["unshifted_ms"] = self.unshifted_ms[job.name]
            rows.append(row)
        return pd.DataFrame(rows).set_index("job")

    def trajectory_frame(self) -> pd.DataFrame:
        """Return one row per event: elapsed seconds, incumbent, bound, source (floats to plot)."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "elapsed_s": event.elapsed_s,
                    "incumbent": None if event.incumbent is None else float(event.incumbent),
                    "bound": None if event.bound is None else float(event.bound),
                    "source": event.source,
                }
                for event in self.trajectory
            ],
            columns=["elapsed_s", "incumbent", "bound", "source"],
        )

    def summary(self, known: tuple[Fraction, str] | None = None) -> str:
        """Return one line: who found what, and what is proved of it.

        Parameters
        ----------
        known
            A lower bound to show where the solver has proved none, and what it rests on.
        """
        proved = self.lower_bound
        bound = "none" if proved is None else f"{float(proved):,.6g}"
        gap = self.gap
        if proved is None and known is not None:
            bound = f"{float(known[0]):,.6g} ({known[1]})"
            gap = relative_gap(self.objective, known[0])
        value = "no limit" if self.objective is None else f"{float(self.objective):,.6g}"
        return (
            f"{self.schedule.solver}: {self.status}, {self.schedule.first} "
            f"{value}, lower bound {bound}{'' if gap is None else f', gap {float(gap):.1%}'}, "
            f"{self.schedule.runtime_s:.2f} s ({self.stop})"
        )

    def plot(self) -> Figure:
        """Draw the links before and after; see `metronome_opt.plot.plot_overview`."""
        # By name, as the package loads its own parts: what draws lies above.
        overview = import_module("metronome_opt.plot").plot_overview
        figure: Figure = overview(
            self.instance,
            self.instance.unshifted,
            self.offsets,
            stretch=self.stretch,
            stretch_limit=self.schedule.stretch_limit,
        )
        return figure

    def __repr__(self) -> str:
        return f"<Result {self.instance.name}, {self.summary()}>"

    def _repr_html_(self) -> str:
        head = html.escape(f"{self.instance.name}, {self.summary()}")
        return f"<p>{head}</p>{self.to_frame().to_html(float_format='{:.2f}'.format)}"


def compare(results: Iterable[Result]) -> pd.DataFrame:
    """Return one row per result: solver, value, scores, status, bound, gap and seconds.

    What is not known is missing (``<NA>``), not 0. Values are floats to read and plot; the exact
    ones are in the results.
    """
    import pandas as pd

    rows = []
    for result in results:
        evaluation = result.evaluation
        exact = {
            "contention": evaluation.contention,
            "latency": evaluation.objectives["latency"],
            "score_mean": evaluation.score_mean,
            "score_min": evaluation.score_min,
            "lower_bound": result.lower_bound,
            "gap": result.gap,
        }
        rows.append(
            {
                "solver": result.schedule.solver,
                "status": str(result.status),
                **{name: None if value is None else float(value) for name, value in exact.items()},
                "seconds": result.schedule.runtime_s,
            }
        )
    frame = pd.DataFrame(rows).set_index("solver")
    numbers = frame.columns.drop("status")
    return frame.astype(dict.fromkeys(numbers, "Float64"))
