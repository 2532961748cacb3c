"""What nodes have for the jobs that were read, and which of those that wait find room there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.reading.fabric import Wired
from metronome_opt.kubernetes.reading.gather import LeftOut
from metronome_opt.kubernetes.reading.jobs import Read
from metronome_opt.kubernetes.reading.needs import Pod
from metronome_opt.scenario.machines import Resources, most_free

_Amounts = dict[str, list[int]]  # GPUs, thousandths of a core and MiB by node


def share_out(
    wired: Mapping[str, Wired],
    jobs: Sequence[tuple[str, Read]],
    pods: Sequence[Pod],
    left_out: LeftOut,
    notes: list[str],
) -> tuple[Mapping[str, Resources], list[tuple[str, Read]]]:
    """Return what each node has for the jobs, and the jobs that run or find room.

    A node has what it can give to pods, less what pods of other jobs hold. One that takes no new
    pods, or that no Node speaks of, has what the jobs hold there.

    Parameters
    ----------
    wired
        The machines, by node.
    jobs
        Those that were read, by name.
    pods
        All pods that have not ended.
    left_out
        Gets the jobs without room.
    notes
        What is assumed is told here.

    Raises
    ------
    InputError
        If a job runs on a node that is not among the machines.
    """
    held = _held(wired, jobs)
    mine = {(job.namespace, pod) for _, job in jobs for pod in job.pods}
    others: _Amounts = defaultdict(lambda: [0, 0, 0])
    for pod in pods:
        if (
            pod.node is not None
            and pod.node in wired
            and (pod.found.namespace, pod.found.name) not in mine
        ):
            _add(others[pod.node], pod.needs)
    has = {}
    for name, each in wired.items():
        given = each.machine.has
        if given is None or not each.machine.is_open:
            amounts = held[name]
        else:
            left = [has - taken for has, taken in zip(given.vector, others[name], strict=True)]
            amounts = [max(pair) for pair in zip(left, held[name], strict=True)]
        has[name] = _resources(amounts)
    _tell(wired, others, notes)
    return has, _fitting(has, held, jobs, left_out)


def _held(wired: Mapping[str, Wired], jobs: Sequence[tuple[str, Read]]) -> _Amounts:
    held: _Amounts = defaultdict(lambda: [0, 0, 0])
    for _, job in jobs:
        for pod, node in zip(job.pods, job.nodes or (), strict=job.nodes is not None):
            if node not in wired:
                raise InputError(
                    f"{job.where}: pod {pod} runs on node {show(node)}, of which neither GPUs nor "
                    "an interface were read; read its Node and STBandwidthCapacity, or give "
                    "--nic-gbps"
                )
            _add(held[node], job.each)
    return held


def _fitting(
    has: Mapping[str, Resources],
    held: _Amounts,
    jobs: Sequence[tuple[str, Read]],
    left_out: LeftOut,
) -> list[tuple[str, Read]]:
    """Place jobs that wait as a scenario will, and leave out those without room."""
    free = Counter({name: has[name].gpus - held[name][0] for name in has})
    fitting = []
    for name, job in jobs:
        each = job.each.gpus
        if job.nodes is None:
            if sum(count // each for count in free.values()) < len(job.pods):
                left_out.add("waiting without room", job.kind, job.namespace, job.name)
                continue
            for node in most_free(free, len(job.pods), each):
                free[node] -= each
        fitting.append((name, job))
    return fitting


def _tell(wired: Mapping[str, Wired], others: _Amounts, notes: list[str]) -> None:
    machines = [each.machine for each in wired.values()]
    unknown = sum(machine.has is None for machine in machines)
    if unknown:
        notes.append(f"{unknown} nodes without a Node: their GPUs are taken to be those in use")
    closed = [machine.name for machine in machines if not machine.is_open]
    if closed:
        notes.append(f"{len(closed)} nodes take no new pods: {', '.join(closed[:3])}")
    tainted = [machine.name for machine in machines if machine.tainted]
    if tainted:
        notes.append(f"{len(tainted)} nodes are tainted, which is not looked at")
    taken = sum(amounts[0] for amounts in others.values())
    if taken:
        notes.append(f"{taken} GPUs are held by pods of no job here")


def _add(amounts: list[int], needs: Resources) -> None:
    for column, amount in enumerate(needs.vector):
        amounts[column] += amount


def _resources(amounts: Sequence[int]) -> Resources:
    gpus, cores, memory = (max(0, amount) for amount in amounts)
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
