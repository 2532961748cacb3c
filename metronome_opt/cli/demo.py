"""``metronome demo``: the shipped scenario through the whole package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import wrote
from metronome_opt.cli.progress import describe_event, live_line
from metronome_opt.documents import make_folder, write_text
from metronome_opt.errors import MissingBackendError
from metronome_opt.instance import write_instance
from metronome_opt.objectives import SLOWDOWN
from metronome_opt.report.tables import JOBS_LEGEND, comparison_table, jobs_table, terminal
from metronome_opt.result import Result, Stop
from metronome_opt.scenario import Problem, load
from metronome_opt.schedule import Status, write_schedule
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import SAFE, Player, plays
from metronome_opt.slowdown.times import Times
from metronome_opt.solving import solve
from metronome_opt.verify import check

SCENARIO = "paper-24"
SOLVERS = ("unshifted", "random", "greedy", "cassini", "cpsat", "milp", "auto")
DEFAULT = "solve"
"""The row of `solve` with no objective named: minimum slowdown."""
_FREE = ("unshifted", "random")  # as today: no job waits for slots

_LEGEND = """\
fair, tcp: slowdown (mean iteration time over period, by weight) as simulated, of jobs that keep the
slots of the schedule, or run freely (unshifted, random, not gated); differences of 0.005 are chance
Less contention is not less slowdown: traffic that is not served in its slot delays the next burst
of its job. Keeping slots pays only where bursts fit wholly, so `solve` gates no other jobs."""
_SEED, _SEEDS = 1000, 4  # of simulations; `solve` has others


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")
    ] = Path("demo-output"),
    time_limit: Annotated[float, typer.Option(min=0, help="Seconds for each exact solver.")] = 10.0,
    seed: options.Seed = 0,
) -> int:
    """Schedule the shipped 24-node scenario: table, figures, claims.

    Files of an earlier demo are replaced.
    """
    console = terminal()
    problem = load(SCENARIO)
    instance = problem.instance
    make_folder(output)
    console.print(
        f"{instance.name}: {len(instance.jobs)} jobs, {len(instance.links)} links, slots of "
        f"{instance.slot_ms} ms; up to {time_limit:g} s for each exact solver",
    )
    results, failures = _compare(problem, time_limit, seed)
    console.print()
    with live_line("slowdowns", str):
        slowdowns = {name: simulate(result) for name, result in results.items()}
    console.print(comparison_table(results, slowdowns, failures))
    console.print(_LEGEND)
    chosen = results.get(DEFAULT)
    if chosen is not None and chosen.objective is None:
        console.print(*(f"{DEFAULT}: {note}" for note in chosen.notes), sep="\n")
    console.print()
    # Of equal ones a proved one.
    best = min(
        results.values(), key=lambda r: (r.evaluation.contention, r.status is not Status.OPTIMAL)
    )
    console.print(f"The jobs under the schedule of minimum contention ({best.schedule.solver}):")
    console.print(jobs_table(instance, best.schedule, Times.of(best)))
    console.print(JOBS_LEGEND)
    console.print()
    _write(problem, best, output)
    if any(result.stop is Stop.INTERRUPTED for result in results.values()):
        console.print("interrupted: the comparison above is not complete")
        return options.INTERRUPTED
    return 0


def _compare(
    problem: Problem, time_limit: float, seed: int
) -> tuple[dict[str, Result], dict[str, str]]:
    results: dict[str, Result] = {}
    failures = {}
    for name in (*SOLVERS, DEFAULT):
        with live_line(name, describe_event) as callback:
            try:
                results[name] = solve(
                    problem.instance,
                    "auto" if name == DEFAULT else name,
                    SLOWDOWN if name == DEFAULT else "contention",
                    time_limit=time_limit,
                    seed=seed,
                    stop=callback or (),
                )
            except MissingBackendError as error:
                failures[name] = str(error)
        if name in results and results[name].stop is Stop.INTERRUPTED:
            break
    return results, failures


def simulate(result: Result) -> dict[str, float]:
    """Return the simulated slowdown of a schedule, by how links are shared."""
    free = result.schedule.solver in _FREE
    plan = Plan(result.offsets) if free else Plan.of(result.instance, result.schedule)
    values = {}
    for sharing in SAFE:
        player = Player(result.instance, plays(_SEED, _SEEDS, (sharing,)), workers=_SEEDS)
        values[sharing] = player.value(player.slowdowns(plan))
    return values


def _write(problem: Problem, best: Result, folder: Path) -> None:
    """Write everything that the demo makes."""
    from metronome_opt.kubernetes import export_claims
    from metronome_opt.plot import plot_overview, save_figure

    instance = problem.instance
    schedule = folder / "schedule.json"
    write_instance(instance, folder / "instance.json")
    write_schedule(best.schedule, schedule)
    write_text(folder / "traffic.csv", problem.traffic_frame().to_csv(float_format="%.6g"))
    wrote(folder / "instance.json", schedule, folder / "traffic.csv")
    sides = {"unshifted": instance.unshifted, best.schedule.solver: best.offsets}
    overview = folder / "overview.svg"
    save_figure(plot_overview(instance, sides), overview)
    wrote(overview)
    export_claims(instance, best.schedule, problem.deployment, folder / "claims")
    wrote(folder / "claims")
    faults = check(instance, best.schedule)
    verdict = f"FALSE: {faults[0]}" if faults else "verified"
    terminal().print(f"{schedule}: {verdict}; traffic is computed: see models/README.md")
