"""Verification of the statements of a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from metronome_opt.errors import InputError, check_type, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import OBJECTIVES, Schedule, Status
from metronome_opt.verify.evaluation import (
    Violation,
    assignment_violations,
    evaluate,
    jobs_by_link,
    pieces,
    schedule_jobs,
)
from metronome_opt.verify.refutations import left_out_violations, refutation_violations
from metronome_opt.verify.slowdown import (
    isolated_slots,
    slowdown_weights,
    unproved_bound,
)

_SLOWDOWN, _DELAY = "slowdown", "delay"  # simulated, so that `evaluate` does not have them
_WITH_OFFSETS = (
    *("offsets", "stretch", "objectives", "gated", "expected_ms", "before_ms"),
    *("classes", "left_out_bound"),
)


def verify_schedule(instance: Instance, schedule: Schedule) -> tuple[Violation, ...]:
    """Return every statement of `schedule` that is not true of `instance`; empty if all are.

    A bound is false if the value of the schedule or of the unshifted one is better; one of slowdown
    has to be proved by the stated prices. A schedule with status optimal must state a bound equal
    to its value, one with status infeasible a refutation with a proof. Statements of a schedule
    with a reserved cushion are checked for the extended bursts that it was made for.

    Iteration times are not simulated again. They are false if shorter than without contention, and
    a slowdown is false if it is not that of the stated times.
    """
    check_type("instance", instance, Instance)
    check_type("schedule", schedule, Schedule)
    return tuple(_violations(instance, schedule))


def _violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    status = schedule.status
    if schedule.instance != instance.name:
        truth = f"the instance is {quote(instance.name)}"
        yield Violation("instance", quote(schedule.instance), truth)
    yield from refutation_violations(instance, schedule)
    if status not in (Status.INFEASIBLE, Status.UNKNOWN):
        yield from _offset_violations(instance, schedule)
        return
    proofs = any(refutation.is_proved for refutation in schedule.refutations)
    if status is Status.INFEASIBLE and not proofs:
        yield Violation("status", "infeasible", "every choice of offsets is a schedule")
    for field in _WITH_OFFSETS:
        if getattr(schedule, field):
            yield Violation(field, "values", f"the status is {status}")
    yield from _refuted_bound(instance, schedule)


def _offset_violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield false statements of a schedule with offsets; where these are wrong, no others."""
    assignment = schedule.offsets, schedule.stretch, schedule.stretch_limit
    wrong = assignment_violations(instance, *assignment)
    yield from wrong
    if wrong:
        return
    yield from _gated_violations(instance, schedule)
    yield from left_out_violations(instance, schedule)
    yield from _class_violations(instance, schedule.classes)
    yield from _expected_violations(instance, schedule)
    truth = _truth(instance, schedule)
    for name, stated in schedule.objectives.items():
        if name not in truth:
            place = f"objectives.{quote(name)}"
            yield Violation(place, _format(stated), "there is no such objective")
        elif stated != truth[name]:
            yield Violation(f"objectives.{name}", _format(stated), f"it is {_format(truth[name])}")
    wrong = list(_bound_violations(schedule, truth))
    yield from wrong
    if not any(violation.location == "lower_bound" for violation in wrong):
        yield from _refuted_bound(instance, schedule)


def comparable_part(instance: Instance, schedule: Schedule) -> tuple[Instance, Schedule]:
    """Return an instance and its schedule, restricted to gated jobs if hyperperiods are too long.

    Ungated jobs may have no common multiple of periods with the others within the limit of the
    instance, so that nothing can be computed for all jobs.
    """
    gated = {job.name for job in instance.jobs if (schedule.gated or {}).get(job.name)}
    if not gated or not instance.long_hyperperiods(schedule.stretch):
        return instance, schedule
    part = instance.replace(jobs=tuple(job for job in instance.jobs if job.name in gated))
    fields = {
        field: {name: value for name, value in getattr(schedule, field).items() if name in gated}
        for field in ("offsets", "stretch", "gated")
    }
    return part, schedule.model_copy(update=fields)


def _truth(instance: Instance, schedule: Schedule) -> dict[str, Fraction | None]:
    """Return the true values of the stated objectives."""
    truth: dict[str, Fraction | None] = {}
    # Ungated jobs may have no common hyperperiod with the others: only stated values are computed.
    bounded = schedule.lower_bound is not None or schedule.status is Status.OPTIMAL
    asked = schedule.objectives or ((schedule.primary_objective,) if bounded else ())
    if any(name in OBJECTIVES for name in asked):
        evaluation = evaluate(
            instance,
            schedule.offsets,
            schedule.stretch,
            cushion_slots=schedule.cushion_slots,
            stretch_limit=schedule.stretch_limit,
        )
        truth.update(evaluation.objectives)
    times = schedule.expected_ms or {}
    for name in (_SLOWDOWN, _DELAY):
        if name in schedule.objectives:
            # Without the times of all jobs no value is known; that is another violation.
            truth[name] = schedule.objectives[name]
            if times.keys() == instance.unshifted.keys():
                truth[name] = _mean_slowdown(instance, times, name)
    return truth


def _mean_slowdown(instance: Instance, times: Mapping[str, Fraction], name: str) -> Fraction:
    """Return the mean of iteration time over the best one: weighted, or for delay its excess."""
    weights = slowdown_weights(instance)
    if name == _DELAY:
        weights = dict.fromkeys(weights, 1)
    total = sum(
        weights[job.name] * times[job.name] / (job.best_ms or instance.slot_ms * job.period)
        for job in instance.jobs
    )
    return Fraction(total, sum(weights.values())) - (name == _DELAY)


def _gated_violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield false statements about gated jobs; each link must carry all of them."""
    if schedule.gated is None:
        return
    wrong = list(_naming_violations(instance, "gated", schedule.gated))
    yield from wrong
    if wrong:
        return
    gated = (job for job in instance.jobs if schedule.gated[job.name])
    jobs = schedule_jobs(gated, schedule.offsets, schedule.stretch, schedule.cushion_slots)
    users_of = jobs_by_link(instance, jobs)
    for link in instance.links:
        users = users_of[link.name]
        flows = [user.job.links[link.name] for user in users]
        length, when = math.lcm(*{user.period for user in users}), "at slot {}"
        if length > instance.hyperperiod_limit:
            users, when = [user.shorten_period(users) for user in users], "in some slot"
            length = math.lcm(*{user.period for user in users})
        if length > instance.hyperperiod_limit:
            raise InputError(
                f"gated: windows on link {quote(link.name)} repeat after {quote(length)} slots, "
                f"above the limit of {instance.hyperperiod_limit}; coarsen the slots or raise "
                "the limit"
            )
        for slot, _, rates in pieces(users, length):
            asked = sum(flows[index] * rate for index, rate in rates.items())
            if asked > link.capacity:
                names = ", ".join(users[index].job.name for index in sorted(rates))
                yield Violation(
                    "gated",
                    f"jobs {names} are gated on link {link.name}",
                    f"{when.format(slot)} they ask for {asked} of its {link.capacity} Mbit/s",
                )
                break


def _class_violations(instance: Instance, classes: Mapping[str, int] | None) -> Iterator[Violation]:
    """Yield classes of unknown jobs, and classes that the network does not have."""
    if classes is None:
        return
    yield from _naming_violations(instance, "classes", classes)
    for job in instance.jobs:
        if (stated := classes.get(job.name, 0)) >= instance.traffic_classes:
            highest = f"the highest class is {instance.traffic_classes - 1}"
            yield Violation(f"classes.{job.name}", quote(stated), highest)


def _expected_violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield impossible iteration times: no job is faster than isolated, or than its windows.

    Before, jobs may have been on other nodes: only their best iterations bound these times.
    """
    best_ms = {job.name: instance.best_ms(job) for job in instance.jobs}
    for name, time_ms in (schedule.before_ms or {}).items():
        if name not in best_ms:
            yield Violation(f"before_ms.{quote(name)}", str(time_ms), "no such job")
        elif time_ms < best_ms[name]:
            truth = f"it takes {best_ms[name]} ms at least"
            yield Violation(f"before_ms.{name}", str(time_ms), truth)
    expected_ms = schedule.expected_ms
    if expected_ms is None:
        stated = [schedule.objectives.get(name) for name in (_SLOWDOWN, _DELAY)]
        if stated != [None, None]:  # None: it was not simulated
            yield Violation("expected_ms", "nothing", "a slowdown is that of these times")
        return
    wrong = list(_naming_violations(instance, "expected_ms", expected_ms))
    yield from wrong
    if wrong:
        return
    capacities = {link.name: link.capacity for link in instance.links}
    for job in instance.jobs:
        is_gated = schedule.gated and schedule.gated.get(job.name)
        idle = schedule.stretch.get(job.name, 0) if is_gated else 0
        least = max(isolated_slots(job, capacities), Fraction(job.period + idle))
        least_ms, time_ms = instance.slot_ms * least, expected_ms[job.name]
        if time_ms < least_ms:
            truth = f"it takes {least_ms} ms at least"
            yield Violation(f"expected_ms.{job.name}", str(time_ms), truth)


def _naming_violations(
    instance: Instance, field: str, values: Mapping[str, object]
) -> Iterator[Violation]:
    """Yield where a field does not name exactly the jobs of the instance."""
    jobs = {job.name for job in instance.jobs}
    for name, value in values.items():
        if name not in jobs:
            yield Violation(f"{field}.{quote(name)}", str(value), "no such job")
    for job in instance.jobs:
        if job.name not in values:
            yield Violation(f"{field}.{job.name}", "nothing", "all jobs are named or none")


def _bound_violations(
    schedule: Schedule, truth: Mapping[str, Fraction | None]
) -> Iterator[Violation]:
    """Yield a bound that the value violates, and `optimal` without a bound equal to the value."""
    name, bound = schedule.primary_objective, schedule.lower_bound
    if name not in truth:
        return
    value = _format(truth[name])
    if _breaks_bound(schedule, truth[name]):
        yield Violation("lower_bound", str(bound), f"the {name} is {value}")
    if schedule.status is Status.OPTIMAL and (bound is None or bound != truth[name]):
        truth_text = f"the bound is {_format(bound)} and the {name} {value}"
        yield Violation("status", "optimal", truth_text)


def _refuted_bound(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield a bound that is worse than the unshifted schedule, or for slowdown not proved."""
    name, bound = schedule.primary_objective, schedule.lower_bound
    if bound is not None and name == _SLOWDOWN:
        yield from unproved_bound(instance, schedule, bound)
    if bound is None or name not in OBJECTIVES:
        return
    if instance.needs_stretch:
        return  # jobs must be stretched: unshifted ones have too long a hyperperiod
    evaluation = evaluate(instance, instance.unshifted, cushion_slots=schedule.cushion_slots)
    value = evaluation.objectives[name]
    if _breaks_bound(schedule, value):
        yield Violation("lower_bound", str(bound), f"the {name} unshifted is {_format(value)}")


def _breaks_bound(schedule: Schedule, value: Fraction | None) -> bool:
    """Return whether a value is better than the bound; that of a cushion bounds it from above."""
    bound = schedule.lower_bound
    if bound is None:
        return False
    if schedule.primary_objective == "cushion":
        return value is None or bound < value
    return value is not None and bound > value


def _format(value: Fraction | None) -> str:
    return "null" if value is None else str(value)
