"""``metronome place``: place a job in a cluster whose state is kept in a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metronome_opt.cli import options
from metronome_opt.errors import InputError, error_context, pluralise, quote

if TYPE_CHECKING:
    from metronome_opt.kubernetes.state.placement import PlacementDecision
    from metronome_opt.kubernetes.state.records import Change, Gang
    from metronome_opt.kubernetes.state.state import ClusterState


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
    change = _parse_change(cordon or (), uncordon or (), link_capacity or ())
    changes_cluster = bool(change.capacities or change.up)
    if cluster is None and with_jobs:
        raise InputError("--cluster: missing; --with-jobs is for a new STATE")
    _check_exclusive_options(
        job is not None, cluster is not None or changes_cluster, remove, apply_schedule, dry_run
    )
    options.check_outputs(plot, claims)
    new = None
    if cluster is not None:
        new = new_state(cluster, with_jobs=with_jobs)
        _read_gang(new, state, job, remove, change)  # errors are raised before STATE is made
    is_read_only = dry_run or not (cluster or job or changes_cluster or remove or apply_schedule)
    with _open_state(state, new, is_read_only=is_read_only) as current:
        before = current.sequence
        gang = _read_gang(current, state, job, remove, change)
        for line in _apply_change(current, change):
            typer.echo(line, err=True)
        if gang is None:
            placed = True
            if apply_schedule is not None:
                _apply_schedule(current, apply_schedule)
            if remove is not None:
                _remove(current, remove)
            _print_state(current, as_json=as_json)
            if plot is not None:
                _draw_racks(current, plot)
        else:
            placed = _place(
                current, gang, remove=remove, dry_run=dry_run, plot=plot, as_json=as_json
            )
        is_written = new is not None or current.sequence > before
        options.wrote(state if is_written else None)
        if output is not None:
            _write_scenario(current, output)
        if claims is not None:
            export_state(current, claims)
    return 0 if placed else 1


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


def _check_exclusive_options(
    has_job: bool, changes_cluster: bool, remove: str | None, schedule: Path | None, dry_run: bool
) -> None:
    """Refuse options that exclude others."""
    if schedule is not None and (has_job or changes_cluster or remove is not None):
        raise InputError(
            "--apply-schedule: cannot be combined with JOB, --remove or changes of nodes and links"
        )
    if dry_run and (not has_job or changes_cluster):
        raise InputError(
            "--dry-run: needs a JOB and an existing STATE, without changes of nodes and links"
        )


def _parse_change(
    cordoned: Iterable[str], uncordoned: Iterable[str], capacities: Iterable[str]
) -> Change:
    """Return the change of nodes and links that options name."""
    from metronome_opt.kubernetes.state.records import Change

    both = sorted(set(cordoned) & set(uncordoned))
    if both:
        raise InputError(f"--cordon, --uncordon: node {quote(both[0])} is named in both")
    rates: dict[str, int] = {}
    for option in capacities:
        link, _, rate = option.rpartition("=")
        if not link or not (rate.isascii() and rate.isdigit() and len(rate) < 20):
            raise InputError(
                f"--link-capacity: must be LINK=MBPS, a whole number of Mbit/s, got {quote(option)}"
            )
        if rates.setdefault(link, int(rate)) != int(rate):
            raise InputError(
                f"--link-capacity: {quote(link)} is given as {rates[link]} and as {int(rate)}; "
                "give one of the two"
            )
    up = dict.fromkeys(cordoned, False) | dict.fromkeys(uncordoned, True)
    return Change(capacities=rates, up=up)


def _apply_change(state: ClusterState, change: Change) -> Iterator[str]:
    """Apply a change, and yield lines that state it and the jobs that it concerns."""
    for link, capacity in change.capacities.items():
        state.set_capacity(link, capacity)
        jobs = [held.job for held, _ in state.users(link)]
        yield f"{link} carries {capacity:,} Mbit/s; on it: {', '.join(jobs) or 'no job'}"
    for node, up in change.up.items():
        state.set_node(node, up=up)
        takes = "tasks" if up else "no more tasks"
        yield f"{node} takes {takes}; on it: {', '.join(state.jobs_on(node)) or 'no job'}"


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
    *,
    remove: str | None,
    dry_run: bool,
    plot: Path | None,
    as_json: bool,
) -> bool:
    """Place a job, perhaps instead of another one, and print it; return whether it was placed."""
    from metronome_opt.kubernetes.state.placement import place_job
    from metronome_opt.kubernetes.state.records import Change, Reservation
    from metronome_opt.kubernetes.state.views import restore, snapshot_of
    from metronome_opt.kubernetes.state.waiting import WaitDecision

    remaining = state
    if remove is not None:
        remaining = restore(snapshot_of(state))
        remaining.unreserve(remove)
    decision = place_job(remaining, gang, now_s=time.time())
    if isinstance(decision, WaitDecision):
        if as_json:
            options.print_json({"job": gang.name, "placed": False, "reason": decision.reason})
        typer.echo(f"{gang.name} waits: {decision.reason}", err=True)
        return False
    if not dry_run:
        changes: dict[str, Reservation | None] = {gang.name: decision.reservation}
        if remove == gang.name:
            _remove(state, remove)
        elif remove is not None:
            changes = {remove: None, **changes}
        state.apply(Change(changes))
        if None in changes.values():
            typer.echo(f"removed {remove}", err=True)
    if as_json:
        options.print_json(_document(remaining, decision, reserved=not dry_run))
    else:
        _print_place(remaining, decision, reserved=not dry_run)
    if plot is not None:
        _draw(remaining, decision, plot)
    return True


def _draw(state: ClusterState, decision: PlacementDecision, path: Path) -> None:
    """Draw iteration times of the jobs of a state without and with a further job."""
    from metronome_opt.kubernetes.state.placement import iterations_ms
    from metronome_opt.output.tables import format_nodes
    from metronome_opt.plot import plot_placements, save_figure

    name, without = decision.asked.name, iterations_ms(state)
    claims = {**state.reservations, name: decision.reservation}
    changed = {job: after for job, _, after in decision.affected(state)}
    times = {
        f"without {name}": {**without, name: decision.alone_ms},
        f"with {name}": {**without, **changed, name: decision.expected_ms},
    }
    where = {job: f"{job}\n{format_nodes(claim.nodes, 2)}" for job, claim in claims.items()}
    save_figure(plot_placements(times, labels=where), path)
    options.wrote(path)


def _draw_racks(state: ClusterState, path: Path) -> None:
    """Draw the racks of a state with the jobs on them."""
    from collections import Counter

    from metronome_opt.plot import plot_tree, save_figure

    claims = state.reservations.values()
    jobs = {
        claim.job: {node: n * claim.gang.each.gpus for node, n in Counter(claim.nodes).items()}
        for claim in claims
    }
    save_figure(plot_tree(state.cluster, jobs), path)
    options.wrote(path)


def _apply_schedule(state: ClusterState, path: Path) -> None:
    """Apply a schedule to running jobs, and print that."""
    from metronome_opt.kubernetes.state.scenario import apply_schedule
    from metronome_opt.problem.schedule import read_schedule

    schedule = read_schedule(path)
    with error_context(path):
        changes_cluster = apply_schedule(state, schedule)
    typer.echo(f"{path}: {'taken over' if changes_cluster else 'in force already'}", err=True)


def _remove(state: ClusterState, job: str) -> None:
    state.unreserve(job)
    typer.echo(f"removed {job}", err=True)


def _document(
    state: ClusterState, decision: PlacementDecision, *, reserved: bool
) -> dict[str, Any]:
    claim, slot_ms = decision.reservation, state.cluster.slot_ms
    return {
        "job": claim.job,
        "placed": True,
        "reserved": reserved,
        "nodes": list(claim.nodes),
        "racks": decision.placement.racks,
        "gated": claim.gated,
        "traffic_class": claim.traffic_class,
        "offset": claim.offset,
        "offset_ms": claim.offset * slot_ms,
        **({"paths": claim.paths} if claim.paths else {}),
        "stretch": claim.stretch,
        "period_ms": claim.period * slot_ms,
        "best_ms": round(decision.best_ms, 1),
        "alone_ms": round(decision.alone_ms, 1),
        "expected_ms": round(decision.expected_ms, 1),
        "why_slower": decision.why_slower,
        "affected": [
            {"job": name, "before_ms": round(before, 1), "expected_ms": round(after, 1)}
            for name, before, after in decision.affected(state)
        ],
    }


def _print_place(state: ClusterState, decision: PlacementDecision, *, reserved: bool) -> None:
    from metronome_opt.output.tables import format_nodes, spines_text

    claim, slot_ms = decision.reservation, state.cluster.slot_ms
    placed = "placed" if reserved else "would be placed"
    racks = pluralise(decision.placement.racks, "rack")
    typer.echo(f"{claim.job}: {placed} on {format_nodes(claim.nodes)}; {racks}")
    why = decision.why_slower
    longer = f" instead of {decision.best_ms:.0f}: {why}" if why else ""
    typer.echo(f"iteration {decision.expected_ms:.0f} ms{longer}")
    if claim.gated:
        typer.echo(
            f"slots: offset {claim.offset * slot_ms} ms of a period of {claim.period * slot_ms} ms"
        )
    else:
        typer.echo("no slots: bursts begin when they are ready")
    if state.cluster.traffic_classes > 1:
        typer.echo(f"traffic class: {claim.traffic_class}")
    if claim.paths:
        typer.echo(f"spines: {spines_text(claim.paths)}")
    for name, before, after in decision.affected(state):
        shared = ", ".join(sorted(state.flows(name).keys() & decision.placement.links.keys()))
        typer.echo(
            f"{name}: iteration {after:.0f} ms instead of {before:.0f}: also sends on {shared}"
        )


def _print_state(state: ClusterState, *, as_json: bool) -> None:
    from metronome_opt.kubernetes.state.views import snapshot_of
    from metronome_opt.output.state import state_tables
    from metronome_opt.output.tables import terminal

    if as_json:
        options.print_json(snapshot_of(state).model_dump(mode="json"))
        return
    for table in state_tables(state):
        terminal().print(table)


def new_state(path: Path, *, with_jobs: bool = False) -> ClusterState:
    """Return the state of a cluster, or of a scenario's, by its file or its name."""
    from metronome_opt.files.documents import read_document
    from metronome_opt.kubernetes.state.placement import place_scenario
    from metronome_opt.kubernetes.state.state import ClusterState
    from metronome_opt.scenario import locate, read_scenario
    from metronome_opt.scenario.build import with_hyperperiod
    from metronome_opt.scenario.cluster_input import CLUSTER_FORMAT, ClusterSpec, read_cluster
    from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT

    path = locate(path)
    document = read_document(path)
    if document.get("format") == CLUSTER_FORMAT:
        if with_jobs:
            raise InputError(f"--with-jobs: {path} is a cluster, and has no jobs")
        return ClusterState(read_cluster(path))
    if document.get("format") not in (SCENARIO_FORMAT, None):
        raise InputError(
            f"{path}: format: must be {quote(CLUSTER_FORMAT)} or {quote(SCENARIO_FORMAT)}, "
            f"got {quote(document['format'])}"
        )
    scenario = read_scenario(path)
    with error_context(path):
        scenario = with_hyperperiod(scenario)
        spec = ClusterSpec.of_cluster(
            scenario.name, scenario.cluster, scenario.slot_ms, scenario.hyperperiod_ms or 0
        )
        state = ClusterState(spec)
        if with_jobs:
            place_scenario(state, scenario, time.time())
    return state


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
    from metronome_opt.kubernetes.state.views import deployment_of, instance_of, schedule_of

    if not state.reservations:
        options.note(f"no claims are in force; {folder} stays as it is")
        return
    export_claims(instance_of(state), schedule_of(state), deployment_of(state), folder)
    options.wrote(folder)
