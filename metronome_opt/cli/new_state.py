"""A state to begin with: an empty cluster, or one with the jobs of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError, show

if TYPE_CHECKING:
    from metronome_opt.scheduling.cycle import First
    from metronome_opt.scheduling.state import ClusterState, Mode


def new_state(
    path: Path,
    *,
    with_jobs: bool,
    schedule: Path | None,
    exclusive: bool,
    first: First = "compatibility",
) -> ClusterState:
    """Return the state of a cluster, or of a scenario's, by its file or its name.

    Parameters
    ----------
    with_jobs, schedule
        Whether the scenario's jobs run on it, and whose offsets they have; None to choose each
        job's best one, one after the other.
    exclusive
        Whether each burst's bandwidth is its own.
    first
        What a job's best offset is best by; see `Cycle`.
    """
    from metronome_opt.documents import read_document
    from metronome_opt.scenario import locate, read_scenario
    from metronome_opt.scenario.cluster import CLUSTER_FORMAT, ClusterSpec, read_cluster
    from metronome_opt.scenario.model import SCENARIO_FORMAT
    from metronome_opt.scheduling.place import place_scenario
    from metronome_opt.scheduling.state import ClusterState

    if schedule is not None and not with_jobs:
        raise InputError("--schedule: is for the jobs of --with-jobs")
    path = locate(path)
    mode: Mode = "exclusive" if exclusive else "shared"
    kind = read_document(path).get("format")
    if kind == CLUSTER_FORMAT:
        if with_jobs:
            raise InputError(f"--with-jobs: {path} is a cluster, and has no jobs")
        return ClusterState(read_cluster(path), mode=mode)
    if kind != SCENARIO_FORMAT:
        told = "missing" if kind is None else f"got {show(kind)}"
        raise InputError(
            f"{path}: format: must be {show(CLUSTER_FORMAT)} or {show(SCENARIO_FORMAT)}, {told}"
        )
    scenario = read_scenario(path)
    if scenario.hyperperiod_ms is None:
        raise InputError(f"{path}: hyperperiod_ms: missing; all links of a state repeat together")
    spec = ClusterSpec.of_cluster(
        scenario.name, scenario.cluster, scenario.slot_ms, scenario.hyperperiod_ms
    )
    state = ClusterState(spec, mode=mode)
    if with_jobs:
        try:
            place_scenario(state, scenario, first=first)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if schedule is not None:
        _take_over(state, schedule)
    return state


def _take_over(state: ClusterState, path: Path) -> None:
    """Let all jobs run at the offsets of a schedule, with its idle slots."""
    from metronome_opt.schedule import read_schedule

    schedule = read_schedule(path)
    if schedule.instance != state.cluster.name or set(schedule.offsets) != set(state.claims):
        raise InputError(
            f"{path}: is a schedule of {show(schedule.instance)} with "
            f"{len(schedule.offsets)} jobs, not of these; solve the same scenario"
        )
    if schedule.gated is not None and not all(schedule.gated.values()):
        raise InputError(
            f"{path}: not all jobs are gated, and a state has slots for all of them; "
            "solve with --objectives contention"
        )
    try:
        state.revise(
            claim.model_copy(
                update={
                    "offset": schedule.offsets[job],
                    "stretch": schedule.stretch.get(job, 0),
                }
            )
            for job, claim in state.claims.items()
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
