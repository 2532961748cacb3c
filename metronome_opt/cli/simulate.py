"""``metronome simulate``: simulate jobs under policies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from metronome_opt.cli import options
from metronome_opt.cli.options import note, print_json, read_names, read_pairs
from metronome_opt.errors import InputError, error_context, pluralise, quote

if TYPE_CHECKING:
    from metronome_opt.bench.simulations import SimulationRecord
    from metronome_opt.simulation.study import Study

_GRACE_S = 1.0
_ITERATIONS = 1000  # where no job states them


def simulate(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="A study or a scenario, JSON or YAML; the name of a shipped one; or the file "
            "of a cluster's state.",
        ),
    ],
    policies: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Separated by commas: of default, nearest, exclusive, cassini, mltcp, "
            "crux, metronome and ideal, or of another package; with options such as "
            "metronome:slots=no.",
            show_default="those of the study",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Recorded arrivals, in place of the jobs of SCENARIO: a trace with the columns of "
            "Muri, Sia or Philly; replications take consecutive windows of it. Studies such as "
            "muri and sia state the number of jobs, and how much faster time passes.",
            show_default="none",
        ),
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of replications of each cell, with the seeds 0, 1, ...",
            show_default="those of the study; 1 of a scenario that nothing disturbs",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Simulations at once.", show_default="one per core")
    ] = None,
    output: options.ResultsFolder = Path("simulation"),
    resume: Annotated[bool, typer.Option("--resume", help="Skip recorded simulations.")] = False,
    time_limit: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds for each simulation.")
    ] = 1800.0,
    memory_limit: options.MemoryLimit = 4096,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Conditions that replace those of the study: jitter=0.05,network=tcp.",
            show_default="none",
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Sharing of links, in place of the study's conditions: fair, tcp, weighted or "
            "strict.",
            show_default="that of the conditions, or of the cluster",
        ),
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Only cells with these settings: load=0.8,mix=any.",
            show_default="all",
        ),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Also estimate the least time of jobs on their nodes."),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Simulate the jobs of SCENARIO under several policies.

    A simulation is a process of its own. Its outcome is appended to DIR/simulations.jsonl when it
    ends, so that a killed campaign loses at most the simulations that were running. All policies
    get equal jobs and random numbers. With nothing left to do, --resume writes the tables again.
    """
    from metronome_opt.bench.campaign import local_pool
    from metronome_opt.bench.process import Limits
    from metronome_opt.bench.simulations import (
        FILE,
        SimulationRecord,
        check_records,
        check_scenarios,
        choose_cells,
        plan,
        read_value,
        sort_records,
    )
    from metronome_opt.bench.studies import summarise
    from metronome_opt.cli.campaigns import run_remaining
    from metronome_opt.files.documents import make_folder
    from metronome_opt.files.journal import Journal

    study = _study(scenario)
    if trace is not None:
        study = study.of_trace(str(trace))
    elif (whole := study.with_iterations(_ITERATIONS)) is not study:
        note(f"no job states how many iterations it runs: each runs {_ITERATIONS:,}")
        study = whole
    chosen_policies = _policies(study, policies)
    with error_context("--cells"):
        chosen = choose_cells(study, read_pairs("--cells", cells))
    overrides = {
        name: read_value(text) for name, text in read_pairs("--conditions", conditions).items()
    }
    if ("network" in overrides) + ("sharing" in overrides) + (network is not None) > 1:
        raise InputError("--network: stated more than once, here or in --conditions")
    if stated := overrides.pop("network", network):
        overrides["sharing"] = stated
    limits = Limits(time_limit, memory_limit, grace_s=_GRACE_S)
    with error_context("--conditions"):
        cases = plan(
            study,
            chosen,
            chosen_policies,
            seeds=replications,
            limits=limits,
            overrides=overrides,
            estimated=estimate,
        )
    _check_folder(output, FILE)
    with error_context(scenario):
        check_scenarios(study, chosen)
    make_folder(output)
    with Journal(output / FILE, SimulationRecord, resume=resume) as file:
        with error_context(str(output)):
            check_records(file.records, study, overrides)
        pool = local_pool(processes or os.cpu_count() or 1)
        counts = run_remaining(cases, file, pool, output)
        records = sort_records(file.records, study)
        written = [output / FILE, *_write(records, output)]
    if counts is not None and records and all(record.kind == "refused" for record in records):
        raise InputError(f"{study.name}: {records[0].error}")
    if as_json:
        print_json(
            {
                "study": study.name,
                "kinds": dict(Counter(record.kind for record in records)),
                "policies": summarise(records),
                "written": list(map(str, written)),
            }
        )
    else:
        _print_table(study, records)
    options.wrote(*written)
    if counts is None:
        return options.INTERRUPTED
    if crashed := sum(record.kind == "crash" for record in records):
        what = pluralise(crashed, "simulation")
        note(f"{what} crashed; {output} has the others, the same command with --resume goes on")
    done = {record.key for record in records if record.succeeded}
    return 0 if all(case.key in done for case in cases) else 1


def _study(wanted: str) -> Study:
    """Return a study by file or by name, or the state of a cluster as one."""
    from metronome_opt.files.documents import is_database
    from metronome_opt.simulation.study import Study, find_study

    if not is_database(wanted):
        return find_study(wanted)
    from metronome_opt.kubernetes.state.scenario import document_of
    from metronome_opt.kubernetes.state.store import read_cluster_state
    from metronome_opt.scenario.scenario_file import Scenario

    state = read_cluster_state(wanted)
    with error_context(wanted):  # a simulation needs no grid of time
        return Study.of_scenario(Scenario.from_dict(document_of(state)))


def _policies(study: Study, typed: Sequence[str] | None) -> Sequence[str]:
    from metronome_opt.simulation.policies import check_policy

    if typed is None:
        return study.policies
    names = read_names(typed)
    if not names:
        raise InputError(f"--policies: {quote(','.join(typed))} names none")
    with error_context("--policies"):
        for name in names:
            check_policy(name)
    return names


def _check_folder(output: Path, file: str) -> None:
    """Refuse a folder that has files but no campaign."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output}: is not a folder; name another --output")
    if output.is_dir() and any(output.iterdir()) and not (output / file).exists():
        raise InputError(f"{output}: holds files that are not of a campaign; name another --output")


def _write(records: Sequence[SimulationRecord], output: Path) -> list[Path]:
    """Write tables if a simulation is done; return their files."""
    from metronome_opt.bench.studies import write_tables
    from metronome_opt.cli.progress import live_line

    if not any(record.succeeded for record in records):
        return []
    with live_line("writing tables", str):
        return write_tables(records, output)


def _print_table(study: Study, records: Sequence[SimulationRecord]) -> None:
    from metronome_opt.bench.studies import SUMMARY, summarise
    from metronome_opt.output.tables import plain_table, terminal

    kinds = Counter(record.kind.replace("_", " ") for record in records)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    typer.echo(f"{study.name}: {counts or 'no simulation is done'}")
    rows = []
    for row in summarise(records):
        means = ((form, row[name]) for name, (_, form) in SUMMARY.items())
        texts = ("-" if mean is None else form(mean) for form, mean in means)
        rows.append((row["policy"], f"{row['runs']:,}", *texts, f"{row['unfinished']:,}"))
    headings = ("policy", "runs", *(heading for heading, _ in SUMMARY.values()), "unfinished jobs")
    terminal().print(plain_table(headings, rows))
