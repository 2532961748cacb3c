"""Sources of a page: one schedule or a folder of schedules, and the problem that they solve."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import find_documents, is_database, read_document
from metronome_opt.kubernetes import VerificationError
from metronome_opt.kubernetes.state.scenario import read_state
from metronome_opt.problem.instance import INSTANCE_FORMAT
from metronome_opt.problem.schedule import SCHEDULE_FORMAT, Schedule, Status, read_schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import SCENARIO_FORMAT, read_source
from metronome_opt.scenario.verification import verify_placed
from metronome_opt.scenario.workload import data_folder
from metronome_opt.verify import verify_schedule


@dataclass(frozen=True)
class Point:
    """A schedule and the file that it comes from."""

    path: Path
    schedule: Schedule


def read_points(result: str | Path) -> tuple[Point, ...]:
    """Read a schedule file, or all schedules of a folder, such as ``metronome pareto`` writes.

    Those of a folder are sorted by name; its other files are ignored. An `InputError` if a file
    cannot be read, there is no schedule, or schedules are of different instances.
    """
    result = Path(result)
    if not result.is_dir():
        return (Point(result, read_schedule(result)),)
    files = find_documents(result, SCHEDULE_FORMAT)
    points = tuple(Point(path, read_schedule(path)) for path in files)
    if not points:
        raise InputError(
            f"{result}: no file in this folder has format {SCHEDULE_FORMAT}; "
            "name a schedule, or a folder that metronome pareto wrote"
        )
    for point in points[1:]:
        for field in ("instance", "places", "paths"):
            if getattr(point.schedule, field) != getattr(points[0].schedule, field):
                raise InputError(
                    f"{point.path}: {field} differs from {points[0].path.name}; a page shows one "
                    "instance and one placement: name one of the schedules"
                )
    return points


def find_problem(points: Sequence[Point], given: str | Path | None = None) -> PlacedInstance:
    """Return the problem that schedules solve, after verifying all of them.

    It is given as an instance, a scenario, the name of a shipped one, or a state. If None, files
    with the name that the schedules state are tried: beside the schedules, in the working
    directory, and shipped. A scenario is preferred to an instance, because it states the nodes of
    tasks.

    Raises
    ------
    InputError
        If there is no such problem, or it cannot be read.
    VerificationError
        If a schedule states what is not true, or has no offsets.
    """
    files = _find_named(points) if given is None else [given]
    candidates = [_judge(points, path) for path in files]
    if not candidates:
        name = points[0].schedule.instance
        raise InputError(
            f"{points[0].path}: no instance or scenario called {quote(name)} is shipped, beside it "
            "or in the working directory; name its file as the second argument"
        )
    true = [
        problem for problem, violation in candidates if problem is not None and violation is None
    ]
    if not true:
        raise VerificationError(f"{candidates[0][1]}; only true schedules are shown")
    return next((problem for problem in true if problem.placed is not None), true[0])


def _judge(points: Sequence[Point], path: str | Path) -> tuple[PlacedInstance | None, str | None]:
    """Return the problem of schedules of one placement, and the first false statement."""
    places = points[0].schedule.places
    source = read_state(path, places) if is_database(path) else read_source(path)
    problem: PlacedInstance | None = None
    for point in points:
        status = point.schedule.status
        if status in (Status.INFEASIBLE, Status.UNKNOWN):
            return None, f"{point.path}: status: {status}, so there are no offsets to show"
        if problem is None:
            with error_context(path):
                problem, violations = verify_placed(source, point.schedule)
        else:
            violations = verify_schedule(problem.instance, point.schedule)
        if violations:
            more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
            return problem, f"{point.path}: {violations[0]}{more}"
    return problem, None


def _find_named(points: Sequence[Point]) -> list[Path]:
    """Return the files of instances and scenarios with the name that the schedules state."""
    formats, name = (INSTANCE_FORMAT, SCENARIO_FORMAT), points[0].schedule.instance
    folders = (points[0].path.parent, Path(), data_folder() / "scenarios")
    named = []
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        for path in find_documents(folder, *formats):
            with suppress(InputError):  # another file that only looks like one
                document = read_document(path)
                if document.get("format") in formats and document.get("name") == name:
                    named.append(path)
    return named
