"""A schedule of an instance as it happens: every job from its offset on, again and again."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from metronome_opt.errors import InputError, show
from metronome_opt.instance import Instance
from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.measures import JobFacts, Run, make_run
from metronome_opt.simulate.pattern import Pattern
from metronome_opt.simulate.runner import Runner, Slot
from metronome_opt.verify import evaluate


def play(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    *,
    stretch_limit: Fraction | None = None,
    iterations: int,
    conditions: Conditions | None = None,
    seed: int = 0,
    enforce: bool = True,
    trace: bool = False,
) -> Run:
    """Let the jobs of an instance run as a schedule says.

    Parameters
    ----------
    instance, offsets, stretch
        The problem and the answer, in slots; a job that `stretch` does not name is not stretched.
    stretch_limit
        The share of its period by which a job may be stretched, where that is more than its
        `max_stretch`.
    iterations
        How many each job runs.
    conditions, seed
        What disturbs them; errors of claims make no sense here, as the instance is the truth.
    enforce
        Whether jobs keep their slots, all of them in step; otherwise they only start in them.
    trace
        Whether the rates on all links are kept.

    Raises
    ------
    InputError
        If the schedule is not one of the instance, or `iterations` is not positive.
    """
    conditions = conditions or Conditions()
    if iterations < 1:
        raise InputError(f"iterations: must be at least 1, got {show(iterations)}")
    if conditions.claim_error:
        raise InputError("claim_error: an instance says what jobs do; simulate a scenario instead")
    stretch = stretch or {}
    evaluation = evaluate(instance, offsets, stretch, stretch_limit=stretch_limit)
    slot_ms = instance.slot_ms
    runners = [
        Runner(job.name, Pattern.of_job(job, slot_ms), job.weight, iterations, len(job.links))
        for job in instance.jobs
    ]
    capacities = {link.name: link.capacity for link in instance.links}
    engine = Engine(
        capacities,
        runners,
        sharing=conditions.sharing or "fair",
        conditions=conditions,
        seed=seed,
        watched=[link.name for link in instance.links] if trace else (),
    )
    scores = {report.name: report.score for report in evaluation.links if report.jobs > 1}
    facts = []
    for index, job in enumerate(instance.jobs):
        start = float(offsets[job.name] * slot_ms)
        period = float((job.period + stretch.get(job.name, 0)) * slot_ms)
        engine.enter(index, job.links, at=start, slot=Slot(period_ms=period) if enforce else None)
        mine = [scores[link] for link in job.links if link in scores]
        widest = [Fraction(capacities[link], flows) for link, flows in job.links.items()]
        alone = float(runners[index].pattern.slowed_to(min(widest, default=None)).duration)
        facts.append(
            JobFacts(
                name=job.name,
                priority=job.weight,
                ideal_ms=alone,
                alone_ms=alone,
                score=float(min(mine)) if mine else None,
                predicted_ms=float(evaluation.elongation[job.name] * slot_ms),
                start_ms=0.0,
            )
        )
    end = float("inf") if conditions.horizon_s is None else 1000.0 * conditions.horizon_s
    running = set(range(len(runners)))
    while running:
        finished = engine.run(end)
        if finished is None:
            break
        running.discard(finished)
        facts[finished].end_ms = engine.now
    return make_run(
        engine, facts, used_ms={link: engine.now for job in instance.jobs for link in job.links}
    )
