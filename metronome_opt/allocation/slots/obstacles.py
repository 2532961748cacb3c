"""Why jobs are slower than alone, as sentences: links on which bursts do not fit, and nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from metronome_opt.engine.jobs import isolated_iteration
from metronome_opt.errors import first_few, pluralise
from metronome_opt.problem.instance import Instance, Job, Link
from metronome_opt.problem.schedule import Schedule

_SLOWER = Fraction(1, 200)  # smaller losses are not explained
_MAX_LINES, _NAMED = 3, 3

_NO_SLOTS = "no windows help there: fewer jobs on the link or a wider one would"
_PERIODS = "periods that divide one another, by other batch sizes, would help"
_MORE = "a larger --max-loss may find windows"
_STATED = "the nodes are stated: without them, allocate chooses nodes"


def explain_obstacles(
    instance: Instance,
    schedule: Schedule,
    times_ms: Mapping[str, Fraction],
    *,
    stated_nodes: bool = False,
) -> list[str]:
    """Return lines that say why jobs are slower than alone, and then what to try.

    Links come first, in the order of the time that their jobs lose; then jobs that are
    slower on their nodes, whatever the others do.

    Parameters
    ----------
    times_ms
        Iteration times under the schedule, by job.
    stated_nodes
        Whether other nodes were not allowed.
    """
    isolated = {job.name: isolated_iteration(instance, job).duration for job in instance.jobs}
    lost = {
        job.name: times_ms[job.name] / isolated[job.name] - 1
        for job in instance.jobs
        if job.name in times_ms and times_ms[job.name] > isolated[job.name] * (1 + _SLOWER)
    }
    gated = schedule.gated or dict.fromkeys(schedule.offsets, True)
    periods = {job.name: job.period + schedule.stretch.get(job.name, 0) for job in instance.jobs}
    lines, advice, explained = list[str](), list[str](), set[str]()

    def loss(link: Link) -> Fraction:
        left = (job for job in _users(instance, link) if job.name not in explained)
        return sum((job.weight * lost.get(job.name, Fraction(0)) for job in left), Fraction(0))

    links = {link.name: link for link in instance.links if len(_users(instance, link)) > 1}
    while links and len(lines) < _MAX_LINES:
        link = links.pop(max(links, key=lambda name: loss(links[name])))
        if not loss(link):
            break
        users = _users(instance, link)
        said = _collision(link, users, periods, instance.slot_ms)
        searched = schedule.expected_ms is not None and not all(gated[job.name] for job in users)
        if said is None and searched:
            named = _names([job.name for job in users])
            said = f"on {link.name} no windows of {named} made iterations shorter", _MORE
        if said:
            explained |= {job.name for job in users}
            lines.append(said[0])
            advice.append(said[1])
    far = [
        job
        for job in instance.jobs
        if isolated[job.name] > instance.best_ms(job) * (1 + _SLOWER) + instance.slot_ms
    ]
    if far:
        job = max(far, key=lambda job: isolated[job.name] / instance.best_ms(job))
        more = f" ({pluralise(len(far) - 1, 'more job')} likewise)" if len(far) > 1 else ""
        lines.append(
            f"{job.name} takes {float(isolated[job.name]):,.0f} ms on its nodes even without other "
            f"jobs, {float(instance.best_ms(job)):,.0f} on its best ones{more}"
        )
    if lines and stated_nodes:
        advice.insert(0, _STATED)
    return [*lines, *(f"to try: {text}" for text in dict.fromkeys(advice))]


def _users(instance: Instance, link: Link) -> list[Job]:
    return [instance.jobs[index] for index in instance.jobs_on[link.name]]


def _collision(
    link: Link, users: Sequence[Job], periods: Mapping[str, int], slot_ms: int
) -> tuple[str, str] | None:
    """Return why bursts on a link cannot be kept apart, and what to try; None if they can."""
    name = link.name
    traffic = {
        job.name: Fraction(job.links[name] * job.volume, periods[job.name] * link.capacity)
        for job in users
    }
    if over := _overfull(traffic):
        return f"{_names(over)} send more than {name} carries: {_shares(over)}", _NO_SLOTS
    # Two bursts of more than half the capacity cannot be served at once.
    large = {
        job.name: Fraction(sum(bursts), periods[job.name])
        for job in users
        if (bursts := _large(link, job))
    }
    if over := _overfull(large):
        return f"bursts of {_names(over)} do not fit on {name}: {_shares(over)} of time", _NO_SLOTS
    jobs = sorted((job for job in users if job.name in large), key=lambda job: -large[job.name])
    for number, job in enumerate(jobs):
        for other in jobs[:number]:
            slots = [periods[each.name] for each in (other, job)]
            if sum(max(_large(link, each)) for each in (other, job)) > math.gcd(*slots):
                text = f"bursts of {other.name} and {job.name} meet on {name} at any offsets"
                ms = " and ".join(f"{period * slot_ms:,}" for period in slots)
                return f"{text}: their periods are {ms} ms", _PERIODS
    return None


def _large(link: Link, job: Job) -> list[int]:
    """Return the lengths of the bursts of a job that take more than half of a link, in slots."""
    flows = job.links[link.name]
    return [phase.length for phase in job.phases if 2 * flows * phase.rate > link.capacity]


def _overfull(shares: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return the fewest largest shares that are more than the whole; none if all fit."""
    found: dict[str, Fraction] = {}
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        found[name] = share
        if len(found) > 1 and sum(found.values()) > 1:
            return found
    return {}


def _names(names: Iterable[str]) -> str:
    *others, last = names
    few = len(others) < _NAMED
    return f"{', '.join(others)} and {last}" if few else first_few([*others, last])


def _shares(shares: Mapping[str, Fraction]) -> str:
    return " + ".join(f"{float(share):.0%}" for share in shares.values())
