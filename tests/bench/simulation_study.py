"""A study whose every number was worked out by hand, and how its report is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from metronome_opt.bench.marks import Verdict, verdicts
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import Part, parts_of
from tests.bench.simulation_examples import job, link, simulation, unfinished

# Two seeds. An iteration alone takes 100 ms. Each job: completion, of it queueing, mean iteration.
STUDY = {
    "default": [((100, 0, 120), (300, 0, 100)), ((200, 0, 110), (200, 0, 110))],
    "exclusive": [((100, 50, 100), (400, 90, 100)), ((300, 100, 100), (200, 0, 100))],
    "cassini": [((90, 0, 110), (270, 0, 110)), ((180, 0, 105), (180, 0, 105))],
    "metronome": [((80, 0, 102), (240, 10, 104)), ((150, 0, 101), (150, 0, 101))],
    "ideal": [((80, 0, 100), (220, 0, 100)), ((140, 0, 100), (140, 0, 100))],
}
CARRIED = {"default": 40, "exclusive": 40, "cassini": 45, "metronome": 50, "ideal": 60}


def small(policies: Sequence[str] = tuple(STUDY)) -> Iterator[SimulationRecord]:
    """Yield a study in which job `heavy` is of the higher class."""
    for policy in policies:
        for seed, rows in enumerate(STUDY[policy]):
            jobs = [
                job(
                    name,
                    priority=priority,
                    model=model,
                    completion_s=float(took),
                    queueing_s=float(queued),
                    start_s=float(queued),
                    end_s=float(took),
                    iteration_mean_ms=float(mean),
                    iteration_p99_ms=2.0 * mean,
                )
                for (took, queued, mean), name, priority, model in zip(
                    rows, ("heavy", "light"), (4, 1), ("vgg19", "bert"), strict=True
                )
            ]
            yield simulation(
                policy,
                jobs,
                [link(carried_gbit=float(CARRIED[policy]), contended_s=10.0)],
                seed=seed,
                makespan_s=200.0,
            )


def one(policy: str, completion: float, **where: Any) -> SimulationRecord:
    return simulation(policy, [job("a", completion_s=completion, end_s=completion)], **where)


def with_horizon() -> list[SimulationRecord]:
    """Return one seed in which `default` leaves a job unfinished; `a` is 20 % shorter."""
    return [
        simulation("default", [job("a"), unfinished("b", iteration_mean_ms=150.0)]),
        simulation("metronome", [job("a", completion_s=80.0, end_s=80.0), job("b")]),
        simulation("ideal", [job("a", completion_s=80.0, end_s=80.0), job("b")]),
    ]


def rows(text: str, caption: str) -> dict[str, list[str]]:
    """Return the cells of the table below a caption by the first of each row, its head too."""
    lines = text.split(f"\n{caption}:\n\n")[1].split("\n\n")[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {"": cells[0], **{row[0]: row[1:] for row in cells[2:]}}


def whole(records: Sequence[SimulationRecord]) -> Part:
    return parts_of(records)[0]


def marks(records: Sequence[SimulationRecord]) -> dict[str, Verdict]:
    return {each.mark.name: each for each in verdicts(whole(records))}
