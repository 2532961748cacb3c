"""``metronome fit``: decide which jobs can keep slots, and at which periods."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.compatible.choices import Chosen, Kept, largest_set, least_stretch
from metronome_opt.compatible.solvers import SOLVERS, decide, solve_choices
from metronome_opt.documents import check_targets
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.report.tables import fit_table, terminal
from metronome_opt.result import Stop
from metronome_opt.schedule import Schedule, Status, write_schedule
from metronome_opt.solvers import DEFAULT_TIME_LIMIT
from metronome_opt.solvers.registry import find_solver
from metronome_opt.solvers.solve import exact, versions_of

_MAX_REFUTATIONS = 10  # that are printed


def fit(
    file: options.Problem,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop", help="Leave out jobs of the minimum weight, so that the others fit."
        ),
    ] = False,
    stretch_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Stretch periods by up to this share, as little as possible by weight: 20%.",
            show_default="none",
        ),
    ] = None,
    solver: Annotated[str, typer.Option(help=f"One of {', '.join(SOLVERS)}.")] = "auto",
    time_limit: options.TimeLimit = DEFAULT_TIME_LIMIT,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    cushion_slots: options.CushionSlots = 0,
    output: options.ScheduleOutput = None,
    as_json: options.Json = False,
) -> int:
    """Decide whether all jobs of FILE can keep slots.

    If not, say which of them stand in the way. Exit status 1 if they do not fit, or if it is not
    known in time.
    """
    if drop and stretch_limit is not None:
        raise InputError("--drop: leaves jobs out instead of stretching; leave --stretch-limit out")
    instance = options.read_problem(file).instance
    check_targets([file], [output])
    limit = None if stretch_limit is None else exact("--stretch-limit", stretch_limit)
    arguments: dict[str, Any] = {
        "solver": solver,
        "time_limit": time_limit,
        "seed": seed,
        "workers": workers,
        "cushion_slots": cushion_slots,
    }
    began = time.perf_counter()
    if drop or limit is not None:
        choices = largest_set(instance) if drop else least_stretch(instance, limit)
        chosen = solve_choices(instance, choices, **arguments)
    else:
        chosen = _decide(instance, arguments)
    kept = chosen.kept
    runtime_s = round(time.perf_counter() - began, 6)
    if kept is not None and output is not None:
        schedule = _schedule(
            instance,
            kept,
            solver=solver,
            seed=seed,
            runtime_s=runtime_s,
            cushion_slots=cushion_slots,
            stretch_limit=limit,
        )
        write_schedule(schedule, output)
    if as_json:
        options.print_json(_document(chosen))
    else:
        price = "leaves out weight" if drop else "sum of weight x stretch / period"
        _print(instance, chosen, price if drop or limit is not None else None)
    if kept is not None:
        options.wrote(output)
    if chosen.stop is Stop.INTERRUPTED:
        options.note("interrupted: this is what was known by then")
        return options.INTERRUPTED
    return 0 if kept is not None else 1


def _decide(instance: Instance, arguments: dict[str, Any]) -> Chosen:
    decision = decide(instance, **arguments)
    refutations = () if decision.refutation is None else (decision.refutation,)
    if decision.offsets is None:
        bound = None if refutations else Fraction(0)
        return Chosen(None, None, bound, refutations, decision.stop)
    periods = {job.name: job.period for job in instance.jobs}
    kept = Kept(periods, decision.offsets)
    return Chosen(kept, Fraction(0), Fraction(0), stop=decision.stop)


def _schedule(instance: Instance, kept: Kept, **run: Any) -> Schedule:
    """Return the schedule of what is kept; jobs that are left out begin unshifted.

    It states that jobs keep slots, and no objective: the judge takes long where jobs are many, and
    jobs that are left out may have no common hyperperiod with the others.
    """
    return Schedule(
        instance=instance.name,
        offsets={**instance.unshifted, **kept.offsets},
        stretch={
            job.name: kept.periods.get(job.name, job.period) - job.period for job in instance.jobs
        },
        status=Status.FEASIBLE,
        objectives={},
        lower_bound=None,
        versions=versions_of(find_solver("cpsat")),
        gated={job.name: job.name in kept.periods for job in instance.jobs},
        **run,
    )


def _document(chosen: Chosen) -> dict[str, object]:
    kept = chosen.kept
    return {
        "fits": kept is not None,
        "proved": chosen.proved,
        "cost": None if chosen.cost is None else str(chosen.cost),
        "bound": None if chosen.bound is None else str(chosen.bound),
        "periods": None if kept is None else dict(kept.periods),
        "offsets": None if kept is None else dict(kept.offsets),
        "refutations": [
            {"reason": each.reason.name.lower(), "periods": dict(each.periods)}
            for each in chosen.refutations
        ],
    }


def _print(instance: Instance, chosen: Chosen, price: str | None) -> None:
    if chosen.kept is None:
        unknown = "not known: no answer in time, or by this solver"
        typer.echo("they do not fit (proved)" if chosen.bound is None else unknown)
    else:
        terminal().print(fit_table(instance, chosen.kept))
        proof = "proved" if chosen.proved else f"at least {chosen.bound}"
        count = f"{len(chosen.kept.periods)} of {len(instance.jobs)} jobs keep slots"
        typer.echo(count if price is None else f"{count}; {price}: {chosen.cost} ({proof})")
    for refutation in chosen.refutations[:_MAX_REFUTATIONS]:
        typer.echo(f"not together, periods in slots: {refutation}")
