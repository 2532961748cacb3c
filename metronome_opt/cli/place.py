"""``metronome place``: place a job in a cluster whose state is kept in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, error_context, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.state.placement import PlacementDecision
    from metronome_opt.kubernetes.state.records import Change, Gang
    from metronome_opt.kubernetes.state.state import ClusterState

_MAX_DRAWN = 12  # jobs


def place(
    state: options.State,
    job: Annotated[
        Path | None,
        typer.Argument(
            metavar="[JOB]",
            help="A job, YAML or JSON; without it the state is printed.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Create STATE with the cluster of FILE, without jobs."),
    ] = None,
    with_jobs: Annotated[
        bool, typer.Option("--with-jobs", help="Keep the jobs of the scenario on their nodes.")
    ] = False,
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Remove a job first, with its reservation; it stays if JOB cannot be placed.",
        ),
    ] = None,
    cordon: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Cordon a node: it accepts no new tasks."),
    ] = None,
    uncordon: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Uncordon a node: it accepts tasks again."),
    ] = None,
    link_capacity: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK=MBPS", help="Set a link's capacity; 0: failed."),
    ] = None,
    apply_schedule: Annotated[
        Path | None,
        typer.Option(metavar="SCHEDULE", help="Apply a schedule of STATE to the running jobs."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Find a placement without reserving it.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the state as a scenario file."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw iteration times before and after JOB (.svg, .png or .pdf); without a JOB "
            "the racks, and where jobs run.",
        ),
    ] = None,
    claims: options.ClaimsFolder = None,
    as_json: options.Json = False,
) -> int:
    """Place all tasks of JOB in a cluster, or none.

    A reservation is on the disk in STATE before it is printed.
    """
    from metronome_opt.kubernetes.state.scenario import make_state
    from metronome_opt.output.state import print_state

    change = _parse_change(cordon or [], uncordon or [], link_capacity)
    changes_cluster = bool(change.capacities or change.up)
    if cluster is None and with_jobs:
        raise InputError("--cluster: missing; --with-jobs is for a new STATE")
    _check_exclusive_options(job, cluster or changes_cluster, remove, apply_schedule, dry_run)
    options.check_outputs(plot, claims)
    new = None
    if cluster is not None:
        new = make_state(cluster, time.time(), with_jobs=with_jobs)
        _read_gang(new, state, job, remove, change)  # errors are raised before STATE is made
    is_read_only = dry_run or not (cluster or job or changes_cluster or remove or apply_schedule)
    with _open_state(state, new, is_read_only=is_read_only) as current:
        before, placed = current.sequence, True
        gang = _read_gang(current, state, job, remove, change)
        _apply_change(current, change)
        if gang is not None:
            placed = _place(current, gang, remove, plot, dry_run=dry_run, as_json=as_json)
        else:
            _revise(current, apply_schedule, remove)
            if as_json:
                options.print_json(current.snapshot.model_dump(mode="json"))
            else:
                print_state(current)
            if plot is not None:
                _draw_racks(current, plot)
        is_written = new is not None or current.sequence > before
        options.wrote(state if is_written else None)
        if output is not None:
            _write_scenario(current, output)
        if claims is not None:
            export_state(current, claims)
    return 0 if placed else 1


def _check_exclusive_options(
    job: Path | None,
    changes_cluster: Path | bool,
    remove: str | None,
    schedule: Path | None,
    dry_run: bool,
) -> None:
    """Refuse options that exclude others."""
    if schedule is not None and (job or changes_cluster or remove is not None):
        raise InputError(
            "--apply-schedule: cannot be combined with JOB, --remove or changes of nodes and links"
        )
    if dry_run and (job is None or changes_cluster):
        raise InputError(
            "--dry-run: needs a JOB and an existing STATE, without changes of nodes and links"
        )


@contextmanager
def _open_state(
    path: Path, new: ClusterState | None, *, is_read_only: bool
) -> Iterator[ClusterState]:
    """Open the state in a file, or make it; another process may write a state that is read."""
    from metronome_opt.kubernetes.state.store import Store, read_cluster_state

    if is_read_only:
        yield read_cluster_state(path)
        return
    with Store(path) if new is None else Store.keep(path, new) as store:
        yield store.state


def _parse_change(
    cordoned: list[str], uncordoned: list[str], capacities: list[str] | None
) -> Change:
    """Return the change of nodes and links that options name."""
    from metronome_opt.kubernetes.state.records import Change

    both = sorted(set(cordoned) & set(uncordoned))
    if both:
        raise InputError(f"--cordon, --uncordon: node {quote(both[0])} is named in both")
    rates = options.read_pairs("--link-capacity", capacities)
    for link, rate in rates.items():
        if not (rate.isascii() and rate.isdigit() and len(rate) < 20):
            raise InputError(
                "--link-capacity: must be LINK=MBPS, a whole number of Mbit/s, got "
                f"{quote(f'{link}={rate}')}"
            )
    up = dict.fromkeys(cordoned, False) | dict.fromkeys(uncordoned, True)
    return Change(capacities={link: int(rate) for link, rate in rates.items()}, up=up)


def _apply_change(state: ClusterState, change: Change) -> None:
    """Apply a change, and print it with the jobs that it concerns."""
    for link, capacity in change.capacities.items():
        state.set_capacity(link, capacity)
        jobs = ", ".join(state.jobs_sharing([link]))
        typer.echo(f"{link} carries {capacity:,} Mbit/s; on it: {jobs or 'no job'}", err=True)
    for node, up in change.up.items():
        state.set_node(node, up=up)
        takes, jobs = "tasks" if up else "no more tasks", ", ".join(state.jobs_on(node))
        typer.echo(f"{node} takes {takes}; on it: {jobs or 'no job'}", err=True)


def _read_gang(
    state: ClusterState, path: Path, job: Path | None, remove: str | None, change: Change
) -> Gang | None:
    """Return the job to place, None if there is none; refuse what cannot be done."""
    from metronome_opt.kubernetes.state.records import read_request

    state.check(change)
    if remove is not None and remove not in state.reservations:
        raise InputError(f"--remove: {path} has no job {quote(remove)}")
    if job is None:
        return None
    gang = read_request(job, state.cluster)
    if gang.name in state.reservations and gang.name != remove:
        raise InputError(
            f"{job}: name: {quote(gang.name)} runs already; remove it with --remove, or rename it"
        )
    return gang


def _place(
    state: ClusterState,
    gang: Gang,
    remove: str | None,
    plot: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> bool:
    """Place a job, perhaps instead of another one, and print it; return whether it was placed."""
    from metronome_opt.kubernetes.state.placement import place_job
    from metronome_opt.kubernetes.state.records import Change
    from metronome_opt.kubernetes.state.waiting import WaitDecision
    from metronome_opt.output.state import placement_document, placement_lines

    remaining = state.copy()
    if remove is not None:
        remaining.unreserve(remove)
    decision = place_job(remaining, gang, now_s=time.time())
    if isinstance(decision, WaitDecision):
        if as_json:
            options.print_json({"job": gang.name, "placed": False, "reason": decision.reason})
        typer.echo(f"{gang.name} waits: {decision.reason}", err=True)
        return False
    if not dry_run:
        removed = {} if remove is None else {remove: None}
        state.apply(Change({**removed, gang.name: decision.reservation}))
        if remove is not None:
            typer.echo(f"removed {remove}", err=True)
    if as_json:
        options.print_json(placement_document(remaining, decision, reserved=not dry_run))
    else:
        typer.echo("\n".join(placement_lines(remaining, decision, reserved=not dry_run)))
    if plot is not None:
        _draw(remaining, decision, plot)
    return True


def _draw(state: ClusterState, decision: PlacementDecision, path: Path) -> None:
    """Draw iteration times without and with a further job, its own and those that it changes."""
    from metronome_opt.kubernetes.state.placement import iterations_ms
    from metronome_opt.output.tables import format_nodes
    from metronome_opt.plot import plot_placements, save_figure

    name, without = decision.reservation.job, iterations_ms(state)
    reservations = {**state.reservations, name: decision.reservation}
    changed = {job: after for job, _, after in decision.affected(state)}
    most = sorted(changed, key=lambda job: without[job] / changed[job])[: _MAX_DRAWN - 1]
    times = {
        f"without {name}": {name: decision.alone_ms, **{job: without[job] for job in most}},
        f"with {name}": {**changed, name: decision.expected_ms},
    }
    nodes = {job: f"{job}\n{format_nodes(its.nodes, 2)}" for job, its in reservations.items()}
    save_figure(plot_placements(times, labels=nodes), path)
    options.wrote(path)


def _draw_racks(state: ClusterState, path: Path) -> None:
    """Draw the racks of a state with the jobs on them."""
    from collections import Counter

    from metronome_opt.plot import plot_tree, save_figure

    gpus = {
        job: {node: count * held.gang.each.gpus for node, count in Counter(held.nodes).items()}
        for job, held in state.reservations.items()
    }
    save_figure(plot_tree(state.cluster, gpus), path)
    options.wrote(path)


def _revise(state: ClusterState, path: Path | None, remove: str | None) -> None:
    """Apply a schedule to running jobs, or remove one of them, and print that."""
    from metronome_opt.kubernetes.state.scenario import apply_schedule
    from metronome_opt.problem.schedule import read_schedule

    if path is not None:
        schedule = read_schedule(path)
        with error_context(path):
            is_new = apply_schedule(state, schedule)
        typer.echo(f"{path}: {'taken over' if is_new else 'in force already'}", err=True)
    if remove is not None:
        state.unreserve(remove)
        typer.echo(f"removed {remove}", err=True)


def _write_scenario(state: ClusterState, output: Path) -> None:
    from metronome_opt.files.documents import write_text
    from metronome_opt.files.records import dump_document
    from metronome_opt.kubernetes.state.scenario import document_of

    document = document_of(state)
    if not document["jobs"]:
        options.note(f"no job sends anything; {output} stays as it is")
        return
    write_text(output, dump_document(document, one_per_line=["jobs"]))
    options.wrote(output)


def export_state(state: ClusterState, folder: Path) -> None:
    """Write all claims in force to a folder, as manifests; without claims it stays as it is."""
    from metronome_opt.kubernetes import export_claims
    from metronome_opt.kubernetes.state.views import exported

    if not state.reservations:
        options.note(f"no claims are in force; {folder} stays as it is")
        return
    export_claims(*exported(state), folder)
    options.wrote(folder)
