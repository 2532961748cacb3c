"""Verification of the spines that flows cross, as a schedule states them.

A flow is the traffic of a task by one interface to a task on another node. The hash of a flow is
given by the first 8 bytes of SHA-256 of ``SEED/JOB/TASK/TASK/INTERFACE``, the smaller of its two
tasks first, modulo the number of spines; tasks and interfaces count from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256

from metronome_opt.errors import pluralise, quote
from metronome_opt.verify.evaluation import Violation
from metronome_opt.verify.flows import Document, Tree

Paths = Mapping[str, Sequence[Sequence[int]]]


def check_paths(
    scenario: Document,
    places: Mapping[str, Sequence[str]],
    paths: Paths,
    chosen: Collection[str] | None = None,
) -> Iterator[Violation]:
    """Yield every false statement about the spines of the flows of jobs.

    A flow between racks with several uplinks, and no other one, has a spine that exists: the spine
    of the scenario, or of the hash, or any one if it may be chosen. A sprayed flow has none.

    Parameters
    ----------
    scenario
        Its document, with ``link_mbps`` of the cluster, and the ``algorithm`` of every job.
    places, paths
        Nodes of tasks, true by `check_places`, and the stated spines.
    chosen
        Jobs whose spines were chosen; None for all jobs with stated spines.
    """
    chosen = paths if chosen is None else chosen
    cluster, used = scenario["cluster"], Counter[str]()
    tree, routing = Tree(cluster), cluster.get("routing")
    for name in sorted(paths.keys() - places.keys()):
        yield Violation(f"paths.{quote(name)}", "its spines", "no such job runs")
    for job in scenario["jobs"]:
        name = job["name"]
        flows = list(_flows(tree, job, places[name], used)) if name in places else []
        stated, given = paths.get(name), job.get("paths")
        if stated is None or name not in places:
            continue
        if routing == "spray":
            yield Violation(f"paths.{name}", "its spines", "its flows are sprayed over all")
        elif given is not None and [*map(list, stated)] != given:
            yield Violation(f"paths.{name}", "its spines", "the scenario states others")
        elif sorted((task, n) for task, n, _ in flows) != [
            (task, n) for task, its in enumerate(stated) for n in range(len(its))
        ] or len(stated) != len(places[name]):
            spines, sent = sum(map(len, stated)), pluralise(len(flows), "flow")
            text = f"{pluralise(spines, 'spine')} of {pluralise(len(stated), 'task')}"
            tasks = pluralise(len(places[name]), "task")
            truth = f"it has {tasks} with {sent} over spines, each with a spine"
            yield Violation(f"paths.{name}", text, truth)
        else:
            is_free = routing == "chosen" and (name in chosen or given is not None)
            for task, number, ends in flows:
                spine, where = stated[task][number], f"paths.{name}[{task}]"
                key = f"{cluster.get('hash_seed', 0)}/{name}/{ends}/{number}"
                own = int(sha256(key.encode()).hexdigest()[:16], 16) % tree.spines
                if not 0 <= spine < tree.spines:
                    yield Violation(where, f"spine {spine}", f"there are 0 to {tree.spines - 1}")
                elif spine != own and not is_free:
                    yield Violation(where, f"spine {spine}", f"it is {own}")


def _flows(
    tree: Tree, job: Document, nodes: Sequence[str], used: Counter[str]
) -> Iterator[tuple[int, int, str]]:
    """Yield task, interface number, and both tasks as text, of the flows that cross spines."""
    rails = tree.rails_of(nodes, job["each"]["gpus"], used)
    if len(set(nodes)) > 1 and job["algorithm"] != "all-to-all":
        for sender in tree.senders(nodes, rails, job["algorithm"]):
            ends = f"{min(sender.task, sender.to)}/{max(sender.task, sender.to)}"
            for number in range(len(sender.rails) if tree.is_by_spine(sender) else 0):
                yield sender.task, number, ends
