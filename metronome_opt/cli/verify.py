"""``metronome verify``: recompute every number of a schedule."""

from __future__ import annotations

import typer

from metronome_opt.cli import options
from metronome_opt.objectives import SLOWDOWN
from metronome_opt.scenario.judge import judge
from metronome_opt.schedule import read_schedule


def verify(
    instance: options.InstanceFile,
    schedule: options.ScheduleFile,
    as_json: options.Json = False,
) -> int:
    """Recompute every number that SCHEDULE states.

    The exit status is 0 only if all are true. A lower bound is checked against the value; its proof
    cannot be seen from the file, unless it is one of slowdown. Refutations are replayed.
    """
    stated = read_schedule(schedule)
    source = options.read_source(instance, stated)
    with options.naming(instance):
        _, faults = judge(source, stated)
    if as_json:
        rows = [{"place": f.place, "stated": f.stated, "truth": f.truth} for f in faults]
        options.print_json({"valid": not faults, "false": rows})
    elif not faults:
        typer.echo(
            f"{schedule}: true ({len(stated.offsets)} offsets, {len(stated.objectives)} values)"
        )
        if stated.lower_bound is not None:
            proof = "proved by the loads of links"
            if stated.first != SLOWDOWN:
                proof = "not above the value; proof not checked"
            typer.echo(f"lower bound {stated.lower_bound}: {proof}")
        for each in stated.refutations:
            proof = "proved" if each.is_proved else "not proved"
            typer.echo(f"not together: {', '.join(each.periods)}: {proof}")
        if stated.left_out_bound is not None:
            typer.echo(f"left out, at least {stated.left_out_bound}: proved by refutations")
    for fault in faults:
        typer.echo(f"{schedule}: {fault}", err=True)
    return 1 if faults else 0
