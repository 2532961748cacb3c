"""Check of the spines that flows cross, as a schedule states them.

A flow is what a task sends by one interface to a task on another node. By a hash it crosses the
spine that is the first 8 bytes of SHA-256 of ``SEED/JOB/TASK/TASK/INTERFACE``, the smaller of its
two tasks first, modulo the number of spines; tasks and interfaces count from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from metronome_opt.errors import counted, quote
from metronome_opt.verify.evaluation import Violation
from metronome_opt.verify.flows import Document, Tree

Paths = Mapping[str, Sequence[Sequence[int]]]


def check_paths(
    scenario: Document,
    places: Mapping[str, Sequence[str]],
    paths: Paths,
    chosen: Collection[str] | None = None,
) -> tuple[Violation, ...]:
    """Return every false statement about the spines of the flows of jobs.

    Of each flow between racks with several uplinks, and of no other one, there is a spine that
    exists: that of the scenario, or of the hash, or any where it may be chosen. A sprayed flow has
    none.

    Parameters
    ----------
    scenario
        Its document, with ``link_mbps`` of the cluster, and the ``algorithm`` of each job.
    places
        True by `check_places`.
    chosen
        Jobs whose spines were chosen, where they may be; all that are stated if None.
    """
    return tuple(_faults(scenario, places, paths, paths if chosen is None else chosen))


def _faults(
    scenario: Document, places: Mapping[str, Sequence[str]], paths: Paths, chosen: Collection[str]
) -> Iterator[Violation]:
    if not paths:
        return
    cluster = scenario["cluster"]
    tree, used = Tree(cluster), Counter[str]()
    routing = cluster.get("routing")
    for name in sorted(paths.keys() - places.keys()):
        yield Violation(f"paths.{quote(name)}", "its spines", "no such job runs")
    for job in scenario["jobs"]:
        name = job["name"]
        if name not in places:
            continue
        is_free = routing == "chosen" and name in chosen
        true = _flows(tree, cluster, job, places[name], used, is_free=is_free)
        stated = paths.get(name)
        if stated is None:
            continue
        if routing == "spray":
            yield Violation(f"paths.{name}", "its spines", "its flows are sprayed over all")
            continue
        if len(stated) != len(true):
            wanted = f"it has {counted(len(true), 'task')}"
            yield Violation(f"paths.{name}", counted(len(stated), "task"), wanted)
        for task, (its, own) in enumerate(zip(stated, true, strict=False)):
            yield from _task_faults(f"paths.{name}[{task}]", its, own, tree.spines)


def _task_faults(
    where: str, stated: Sequence[int], true: Sequence[int | None], spines: int
) -> Iterator[Violation]:
    """Yield false spines of the flows of a task."""
    if len(stated) != len(true):
        yield Violation(
            where, counted(len(stated), "spine"), f"it has {counted(len(true), 'flow')}"
        )
    for spine, own in zip(stated, true, strict=False):
        if not 0 <= spine < spines:
            yield Violation(where, f"spine {spine}", f"there are 0 to {spines - 1}")
        elif own not in (None, spine):
            yield Violation(where, f"spine {spine}", f"it is {own}")


def _flows(
    tree: Tree,
    cluster: Document,
    job: Document,
    nodes: Sequence[str],
    used: Counter[str],
    *,
    is_free: bool,
) -> list[list[int | None]]:
    """Return of each task the spines that its flows have to cross, None for any."""
    flows: list[list[int | None]] = [[] for _ in nodes]
    rails = tree.rails_of(nodes, job["each"]["gpus"], used)
    if len(set(nodes)) == 1 or job["algorithm"] == "all-to-all":
        return flows
    given: Any = job.get("paths")
    for sender in tree.senders(nodes, rails, job["algorithm"]):
        if tree.is_by_spine(sender):
            ends = f"{min(sender.task, sender.to)}/{max(sender.task, sender.to)}"
            key = f"{cluster.get('hash_seed', 0)}/{job['name']}/{ends}"
            flows[sender.task] = [
                _hash(f"{key}/{number}", tree.spines) if not is_free else None
                for number in range(len(sender.rails))
            ]
            if given is not None:
                flows[sender.task] = [*given[sender.task]]
    return flows


def _hash(text: str, spines: int) -> int:
    digest = sha256(text.encode("utf-8")).hexdigest()
    return int(digest[:16], 16) % spines
