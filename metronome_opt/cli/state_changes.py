"""What happened to a cluster's nodes and links, as it is told on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError, show

if TYPE_CHECKING:
    from metronome_opt.scheduling.claim import CapacityChanged, NodeChanged
    from metronome_opt.scheduling.state import ClusterState

    Change = CapacityChanged | NodeChanged


def changes_of(down: Iterable[str], up: Iterable[str], capacity: Iterable[str]) -> list[Change]:
    """Return what is to happen.

    Parameters
    ----------
    down, up
        Nodes.
    capacity
        Links with what they carry from now on, ``LINK=MBPS``.

    Raises
    ------
    InputError
        If a capacity is not of this form, or a node is to be both down and up.
    """
    from metronome_opt.scheduling.claim import CapacityChanged, NodeChanged

    both = sorted(set(down) & set(up))
    if both:
        raise InputError(f"--down, --up: node {show(both[0])} is named in both")
    changes: list[Change] = []
    for option in capacity:
        link, _, rate = option.rpartition("=")
        if not link or not (rate.isascii() and rate.isdigit() and len(rate) < 20):
            raise InputError(
                f"--capacity: must be LINK=MBPS, a whole number of Mbit/s, got {show(option)}"
            )
        changes.append(CapacityChanged(link=link, capacity=int(rate)))
    changes += [NodeChanged(node=node, up=False) for node in down]
    changes += [NodeChanged(node=node, up=True) for node in up]
    return changes


def check_changes(state: ClusterState, changes: Iterable[Change]) -> None:
    """Refuse changes of which one cannot be, before any of them is carried out."""
    for change in changes:
        state.check(change)


def carry_out(state: ClusterState, change: Change) -> str:
    """Carry out a change, and return in one line what it is and which jobs it concerns."""
    if change.event == "capacity":
        state.set_capacity(change.link, change.capacity)
        jobs = [job for job in state.claims if change.link in state.flows(job)]
        return f"{change.link} carries {change.capacity:,} Mbit/s; {_jobs(jobs)} on it"
    state.set_node(change.node, up=change.up)
    words = "takes tasks" if change.up else "takes no more tasks"
    return f"{change.node} {words}; {_jobs(state.jobs_on(change.node))} on it"


def _jobs(jobs: list[str]) -> str:
    if not jobs:
        return "no job is"
    return f"{', '.join(jobs)} {'is' if len(jobs) == 1 else 'are'}"
