"""``metronome validate``: check a file and describe its contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.files.documents import is_database, read_document
from metronome_opt.files.records import read_record
from metronome_opt.kubernetes.state.records import JOB_FORMAT, STATE_FORMAT, read_job
from metronome_opt.problem.instance import INSTANCE_FORMAT
from metronome_opt.problem.schedule import SCHEDULE_FORMAT, Schedule, read_schedule
from metronome_opt.scenario import locate
from metronome_opt.scenario.cluster_input import CLUSTER_FORMAT, read_cluster
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT
from metronome_opt.scenario.workload import WORKLOAD_FORMAT, Workload


def validate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A scenario, cluster, job, instance, schedule or workload, JSON or YAML, or the "
            "file of a cluster's state.",
        ),
    ],
    as_json: options.Json = False,
) -> int:
    """Check FILE and describe its contents.

    A fault is one line that names the location, and the exit status is 2.
    """
    path = locate(file)
    kind = STATE_FORMAT if is_database(path) else read_document(path).get("format")
    if kind in (SCENARIO_FORMAT, INSTANCE_FORMAT, STATE_FORMAT):
        problem = options.read_problem(file)
        said = _of_problem(problem)
    elif isinstance(kind, str) and kind in _READERS:
        problem, said = None, _READERS[kind](path)
    else:
        known = ", ".join(map(quote, (SCENARIO_FORMAT, INSTANCE_FORMAT, *_READERS)))
        given = "missing" if kind is None else f"got {quote(kind)}"
        raise InputError(f"{path}: format: must be one of {known}, {given}")
    if as_json:
        notes = problem.notes if problem else []
        options.print_json({"file": str(file), "format": kind, "says": said, "notes": notes})
        return 0
    typer.echo(f"{file}: {said}")
    if problem and problem.traffic:
        from metronome_opt.output.tables import terminal, traffic_table

        terminal().print(traffic_table(problem))
    return 0


def _of_problem(problem: PlacedInstance) -> str:
    instance = problem.instance
    size = f"{pluralise(len(instance.jobs), 'job')} on {pluralise(len(instance.links), 'link')}"
    repeats = f"some link repeats after more than {instance.hyperperiod_limit:,} slots"
    if not instance.needs_stretch:  # else it may have thousands of digits
        used = [slots for link, slots in instance.hyperperiods.items() if instance.jobs_on[link]]
        repeats = "no job uses a link"
        if used:
            repeats = f"all repeats after {max(used) * instance.slot_ms:,} ms at most"
    time = f"slots of {instance.slot_ms} ms, {repeats}"
    if problem.placed is None:
        return f"an instance: {size}; {time}"
    return f"a scenario: {pluralise(len(problem.placed.cluster.nodes), 'node')}, {size}; {time}"


def _of_schedule(schedule: Schedule) -> str:
    said = f"a schedule of {schedule.instance}"
    if schedule.places is not None:
        said += f": {pluralise(len(schedule.places), 'job')} placed"
    if schedule.waiting:
        said += f", waiting: {', '.join(schedule.waiting)}"
    return said


_READERS: Mapping[str, Callable[[Path], str]] = {
    CLUSTER_FORMAT: lambda path: f"a cluster: {pluralise(len(read_cluster(path).nodes), 'node')}",
    JOB_FORMAT: lambda path: f"a job: {read_job(path).name}",
    SCHEDULE_FORMAT: lambda path: _of_schedule(read_schedule(path)),
    WORKLOAD_FORMAT: lambda path: f"a workload: {read_record(Workload, path).name}",
}
