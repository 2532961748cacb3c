"""``metronome claims``: write a schedule as manifests for a cluster."""

from __future__ import annotations

from metronome_opt.cli import options
from metronome_opt.cli.progress import live_line
from metronome_opt.errors import error_context
from metronome_opt.problem.schedule import read_schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.verification import verify_placed


def claims(
    instance: options.InstanceFile,
    schedule: options.ScheduleFile,
    output: options.ResultsFolder,
    namespace: options.Namespace = options.NAMESPACE,
) -> int:
    """Write SCHEDULE as manifests for a cluster.

    The comments of DIR/kustomization.yaml say how kubectl applies them.
    """
    from metronome_opt.kubernetes import VerificationError, export_claims

    stated = read_schedule(schedule)
    source = options.read_source(instance, stated)
    with error_context(instance):
        problem, violations = verify_placed(source, stated)
    if problem is None:
        raise VerificationError(f"schedule: {violations[0]}; claims are for true schedules only")
    with live_line(f"writing {output}", str):
        export_claims(problem.instance, stated, problem.deployment, output, namespace=namespace)
    options.wrote(output)
    note_missing_nodes(problem)
    return 0


def note_missing_nodes(problem: PlacedInstance) -> None:
    """Print a note if claims cannot name the nodes of a real cluster."""
    if not problem.traffic:
        options.note(
            "an instance does not state the nodes of tasks: every link counts as a node, "
            "with a task for each flow; claims for a real cluster need the scenario"
        )
