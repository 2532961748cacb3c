"""The least slowdowns that are known, by long annealing: ``python -m benchmarks.slowdowns``.

Annealing goes on from what `solve` finds; it serves as a reference and is no part of the package.

What the event engine plays is random, so values are those of plays that no search has seen, the
same for every plan of an instance. They hold on a network that shares links as over TCP, for
periods stretched by up to a fifth; whether real networks agree is for the test bed to say.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import Field
from rich.progress import track

from benchmarks.annealing import anneal
from benchmarks.program import run_program
from benchmarks.stored import SUITES
from metronome_opt.allocation.slots.periods import CUSHION_SLOTS, hyperperiods_fit
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import (
    SlotSearchOptions,
    groups,
    search_plan,
)
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.bench.process import describe_machine, find_commit
from metronome_opt.bench.suites import read_suite
from metronome_opt.files.documents import write_text
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Record,
    dump_document,
    parse_record,
    read_document_as,
)
from metronome_opt.problem.instance import Instance
from metronome_opt.scenario import build_scenario, spread
from metronome_opt.simulation.study import STUDIES, read_study
from metronome_opt.solvers.budget import Budget

FILE = Path(__file__).parent / "best_slowdowns.json"
FORMAT = "metronome-best-slowdowns/1"
FAMILIES = ("paper", "weights", "fabric")
NETWORK, STRETCH = "tcp", Fraction(1, 5)
MOST_JOBS = 130  # beyond that there is no time to play often enough

_FRESH = range(1000, 1004)  # seeds that no search has seen
_PERIODS = 80
_SOLVING = 0.3  # of the time, before annealing
_GLANCE = 15  # periods of a play that says whether another is worth it


class Best(Record):
    """Best known slowdown of one instance.

    Parameters
    ----------
    instance
        Its name.
    unshifted, slowdown
        Weighted mean slowdowns, if nobody is gated and as it is best.
    gated
        Offset and period of each gated job in slots; who is not named is free.
    seconds
        How long was searched.
    """

    instance: str
    unshifted: float
    slowdown: float
    gated: FrozenMap[str, Annotated[tuple[int, int], Field(strict=False)]]
    seconds: float


class BestSlowdowns(Record):
    """Best known slowdowns of all instances, and the origin of the last one."""

    format: Literal["metronome-best-slowdowns/1"] = "metronome-best-slowdowns/1"
    command: str
    commit: str | None
    date: str
    machine: FrozenMap[str, str | int | None]
    best: Annotated[tuple[Best, ...], Field(strict=False)]


def instances(family: str, split: str = "test") -> list[Instance]:
    """Return the instances of a family that are not too large; those of a study are its cells'."""
    if family == "snapshot":
        study = read_study(STUDIES / "snapshot.yaml")
        return [
            build_scenario(spread(study.scenario(cell, 0))).instance.replace(name=cell.label)
            for cell in study.cells
        ]
    members = read_suite(SUITES / family).members(split)
    return [m.instance for m in members if len(m.instance.jobs) <= MOST_JOBS]


def judge(instance: Instance, network: str = NETWORK) -> PlanSimulator:
    """Return a simulator whose seeds no search has seen."""
    return PlanSimulator(
        instance, _FRESH, network=network, periods=_PERIODS, threads=os.cpu_count() or 1
    )


def read_best() -> BestSlowdowns:
    """Return what is known."""
    return read_document_as(FILE, lambda document: parse_record(BestSlowdowns, document, FORMAT))


def search(instance: Instance, seconds: float, seed: int) -> Best:
    """Return the best of a long search, judged anew; nobody gated if that is no better."""
    options = SlotSearchOptions(stretch_limit=STRETCH, network=NETWORK, threads=os.cpu_count() or 1)
    budget = Budget(seconds)
    plan = search_plan(instance, options, budget.fraction(_SOLVING)).plan
    parts = list(groups(instance))
    for number, part in enumerate(parts):
        better = _anneal(part, plan, options, budget.fraction(1 / (len(parts) - number)), seed)
        others = {name: p for name, p in plan.periods.items() if name not in better.offsets}
        plan = Plan({**plan.offsets, **better.offsets}, {**others, **better.periods})
    simulator = judge(instance)
    unshifted = simulator.value(simulator.slowdowns(Plan(instance.unshifted)))
    found = simulator.value(simulator.slowdowns(plan))
    gated = {name: (plan.offsets[name], period) for name, period in plan.periods.items()}
    return Best(
        instance=instance.name,
        unshifted=round(unshifted, 6),
        slowdown=round(min(found, unshifted), 6),
        gated=FrozenDict(gated if found < unshifted else {}),
        seconds=seconds,
    )


def _anneal(
    part: Instance, plan: Plan, options: SlotSearchOptions, budget: Budget, seed: int
) -> Plan:
    """Return the plan of jobs that meet after annealing."""
    return anneal(
        options.evaluator(part, 0, _PERIODS, budget),
        options.evaluator(part, 0, _GLANCE, budget),
        plan.only(part),
        {job.name: job.period + int(STRETCH * job.period) for job in part.jobs},
        budget,
        short=partial(hyperperiods_fit, part, [link.name for link in part.links], {}),
        cushion_slots=CUSHION_SLOTS,
        seed=seed,
    )


def main(
    families: Annotated[list[str] | None, typer.Argument(help="All if none is named.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="For each instance.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the search.")] = 1,
) -> None:
    """Search long, and keep what is better than what is known."""
    chosen = families or list(FAMILIES)
    options = f"--seconds {seconds:g} --seed {seed}"
    command = f"python -m benchmarks.slowdowns {' '.join(chosen)} {options}"
    best = {each.instance: each for each in read_best().best}
    for instance in track([each for family in chosen for each in instances(family)]):
        found = search(instance, seconds, seed)
        held = best.get(instance.name)
        if held is not None and found.slowdown >= held.slowdown:
            continue
        best[instance.name] = found
        kept = BestSlowdowns(
            command=command,
            commit=find_commit(),
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            machine=FrozenDict(describe_machine()),
            best=tuple(best.values()),
        )
        write_text(FILE, dump_document(kept.model_dump(mode="json"), one_per_line={"best"}))


if __name__ == "__main__":
    run_program(main)
