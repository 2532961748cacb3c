"""``metronome verify``: recompute every number of a schedule."""

from __future__ import annotations

from fractions import Fraction

import typer

from metronome_opt.cli import options
from metronome_opt.errors import error_context
from metronome_opt.problem.objectives import SLOWDOWN
from metronome_opt.problem.schedule import Schedule, read_schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.verification import verify_placed
from metronome_opt.verify.loads import load_bound


def verify(
    instance: options.InstanceFile,
    schedule: options.ScheduleFile,
    as_json: options.Json = False,
) -> int:
    """Recompute every number that SCHEDULE states.

    The exit status is 0 only if all are true. The file must prove its refutations, and bounds of
    slowdown and of the weight dropped. Any other bound must not be above the value; a line says
    whether the loads of links prove it.
    """
    stated = read_schedule(schedule)
    source = options.read_source(instance, stated)
    with error_context(instance):
        problem, violations = verify_placed(source, stated)
    if as_json:
        rows = [{"place": f.location, "stated": f.stated, "truth": f.truth} for f in violations]
        options.print_json({"valid": not violations, "false": rows})
    elif not violations:
        typer.echo(
            f"{schedule}: verified ({len(stated.offsets)} offsets, {len(stated.objectives)} values)"
        )
        if stated.lower_bound is not None:
            proof = _proof(problem, stated, stated.lower_bound)
            typer.echo(f"lower bound {stated.lower_bound}: {proof}")
        for refutation in stated.refutations:
            proof = "proved" if refutation.is_proved else "not proved"
            typer.echo(f"conflict: {', '.join(refutation.periods)}: {proof}")
        if stated.left_out_bound is not None:
            typer.echo(f"weight dropped, at least {stated.left_out_bound}: proved by refutations")
    for violation in violations:
        typer.echo(f"{schedule}: {violation}", err=True)
    return 1 if violations else 0


def _proof(problem: PlacedInstance | None, stated: Schedule, bound: Fraction) -> str:
    """Return what proves the bound of a true schedule."""
    if stated.primary_objective == SLOWDOWN:
        return "proved by prices of links and of pairs of jobs"
    if stated.primary_objective != "cushion" and bound <= 0:
        return "proved, as nothing is below 0"
    proved = None if problem is None else load_bound(problem.instance, stated)
    if proved is not None and bound <= proved:
        return "proved by the loads of links"
    return "not above the value; proof not checked"
