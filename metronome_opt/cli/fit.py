"""``metronome fit``: test which jobs can be gated."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from metronome_opt.allocation.slots.certificates import prove
from metronome_opt.allocation.slots.feasibility_problem import FeasibilityResult
from metronome_opt.allocation.slots.job_selection import FEASIBILITY_SOLVERS, check_feasibility
from metronome_opt.cli import options
from metronome_opt.files.documents import check_targets
from metronome_opt.output.tables import plain_table, terminal
from metronome_opt.plugins import find_versions
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Schedule, Status, write_schedule
from metronome_opt.solvers.arguments import DEFAULT_TIME_LIMIT
from metronome_opt.solvers.registry import find_solver

_MAX_REFUTATIONS = 10  # that are printed


def fit(
    file: options.Problem,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop", help="Drop jobs of the minimum weight, so that the others can be gated."
        ),
    ] = False,
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(FEASIBILITY_SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    cushion_slots: options.CushionSlots = 0,
    output: options.ScheduleOutput = None,
    as_json: options.Json = False,
) -> int:
    """Test whether all jobs of FILE can be gated.

    If not, the conflicts are printed. The exit status is 1 if they cannot, or if that is not known
    within the time limit.
    """
    problem = options.read_problem(file)
    instance = problem.instance
    check_targets([file], [output])
    began = time.perf_counter()
    result = check_feasibility(
        instance,
        drop=drop,
        solver=solver,
        time_limit=time_limit,
        seed=seed,
        threads=threads,
        cushion_slots=cushion_slots,
    )
    fits = result.offsets is not None
    if output is not None and (fits or result.refutations):
        known = result.offsets or {}
        refutations, bound = prove(instance, result, drop=drop, cushion_slots=cushion_slots)
        proved = any(refutation.is_proved for refutation in refutations)
        status = Status.INFEASIBLE if proved else Status.UNKNOWN
        schedule = Schedule(
            instance=instance.name,
            # Jobs that are dropped begin unshifted.
            offsets={**instance.unshifted, **known} if fits else {},
            stretch=dict.fromkeys(instance.unshifted, 0) if fits else {},
            status=Status.FEASIBLE if fits else status,
            # None is stated: verification takes long where jobs are many, and jobs that are dropped
            # may have no common hyperperiod with the others.
            objectives={},
            lower_bound=None,
            solver=solver,
            seed=seed,
            runtime_s=round(time.perf_counter() - began, 6),
            versions=find_versions(find_solver("cpsat").packages),
            cushion_slots=cushion_slots,
            gated={name: name in known for name in instance.unshifted} if fits else None,
            places=problem.places,
            paths=problem.paths or None,
            waiting=problem.waiting,
            refutations=refutations,
            left_out_bound=bound,
        )
        write_schedule(schedule, output)
        options.wrote(output)
    if as_json:
        options.print_json(_document(instance, result))
    else:
        _print(instance, result, drop=drop)
    if result.stop is StopReason.INTERRUPTED:
        options.note("interrupted: this was known by then")
        return options.INTERRUPTED
    return 0 if fits else 1


def _document(instance: Instance, result: FeasibilityResult) -> dict[str, object]:
    offsets = result.offsets
    periods = {job.name: job.period for job in instance.jobs if job.name in (offsets or {})}
    return {
        "fits": offsets is not None,
        "proved": result.proved,
        "cost": None if result.cost is None else str(result.cost),
        "bound": None if result.bound is None else str(result.bound),
        "periods": None if offsets is None else periods,
        "offsets": None if offsets is None else dict(offsets),
        "refutations": [
            {"reason": refutation.reason.name.lower(), "periods": dict(refutation.periods)}
            for refutation in result.refutations
        ],
    }


def _print(instance: Instance, result: FeasibilityResult, *, drop: bool) -> None:
    if result.offsets is None:
        unknown = "not known: time limit, or heuristic solver"
        typer.echo("infeasible (proved)" if result.bound is None else unknown)
    else:
        rows = []
        for job in instance.jobs:
            offset = result.offsets.get(job.name)
            text = "ungated" if offset is None else f"{offset * instance.slot_ms:,}"
            rows.append((job.name, str(job.weight), f"{job.period * instance.slot_ms:,}", text))
        terminal().print(plain_table(("job", "weight", "period\n(ms)", "offset\n(ms)"), rows))
        proof = "proved" if result.proved else f"at least {result.bound}"
        count = f"{len(result.offsets)} of {len(instance.jobs)} jobs gated"
        typer.echo(f"{count}; weight dropped: {result.cost} ({proof})" if drop else count)
    for refutation in result.refutations[:_MAX_REFUTATIONS]:
        typer.echo(f"conflict, periods in slots: {refutation}")
