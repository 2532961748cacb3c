"""Subsampling of records to the parts that paper and notebooks need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metronome_opt.bench.simulations import SimulationRecord, Value
from metronome_opt.bench.solver_runs import Moment, SolverRecord

CLOSE = 1.02
"""Moments of a trajectory whose times differ by less than this factor are told once."""

DIGITS = 9

CASES_KEEP = (
    "everything, but of several moments of a trajectory whose seconds are within 2 % of the first "
    "of them the last one only, so that nothing is known earlier than it was"
)
SIMULATIONS_KEEP = (
    f"of jobs and links the columns that the paper's measures take; numbers to {DIGITS} digits"
)
FIGURES_KEEP = "everything"

_JOBS = (
    *("job", "model", "priority", "finished", "completion_s"),
    *("iterations", "ideal_ms", "iteration_mean_ms"),
)
_LINKS = ("link", "capacity_mbps", "carried_gbit", "used_s")


def subsample_case(record: SolverRecord) -> SolverRecord:
    """Return a record of a solver with a shorter trajectory; see `CASES_KEEP`."""
    return replace(record, trajectory=_subsample(record.trajectory))


def subsample_simulation(record: SimulationRecord) -> SimulationRecord:
    """Return a record of a simulation with smaller tables; see `SIMULATIONS_KEEP`."""
    return replace(
        record,
        jobs=None if record.jobs is None else _columns(record.jobs, _JOBS),
        links=None if record.links is None else _columns(record.links, _LINKS),
    )


def _subsample(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    kept: list[Moment] = []
    begin = -1.0  # of the moments that the last one kept stands for
    for moment in moments:
        if kept and moment[0] <= CLOSE * begin:
            kept[-1] = moment
        else:
            kept.append(moment)
            begin = moment[0]
    return tuple(kept)


def _columns(
    table: Mapping[str, Sequence[Value]], wanted: Sequence[str]
) -> dict[str, tuple[Value, ...]]:
    return {name: tuple(map(_rounded, table[name])) for name in wanted if name in table}


def _rounded(value: Value) -> Value:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
