"""Free resources of the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.nodes import Resources

_MAX_KNOWN = 10_000  # lists of nodes whose tasks are counted once


class FreeResources:
    """Free resources of the nodes of a cluster.

    Parameters
    ----------
    cluster
        The nodes.
    free
        GPUs, CPU in millicores and memory in MiB of each node, shape (nodes, 3); all if None.
    up
        Whether each node takes tasks, shape (nodes,); all do if None.

    Attributes
    ----------
    names, index
        The names of the nodes in order, and the position of each.
    total
        What nodes have when nothing runs, shape (nodes, 3).
    free, up
        As given; `take` and `release` change `free`.
    """

    def __init__(
        self,
        cluster: Cluster,
        free: NDArray[np.int64] | None = None,
        up: NDArray[np.bool_] | None = None,
    ) -> None:
        self.cluster = cluster
        self.total: NDArray[np.int64] = np.array(
            [node.has.vector for node in cluster.nodes], dtype=np.int64
        )
        self.free = self.total.copy() if free is None else free.copy()
        self.up = np.ones(len(self.free), dtype=np.bool_) if up is None else up
        self.names = [node.name for node in cluster.nodes]
        self.index = {name: index for index, name in enumerate(self.names)}
        self._counted: dict[tuple[str, ...], tuple[NDArray[Any], NDArray[Any]]] = {}

    def copy(self) -> Self:
        """Return a copy with free resources of its own."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other.free = self.free.copy()
        return other

    @property
    def free_gpus(self) -> int:
        """The number of free GPUs."""
        return int(self.free[:, 0].sum())

    def take(self, nodes: Sequence[str], task_resources: Resources, sign: int = -1) -> None:
        """Take the resources of tasks on nodes, without a check that they are free.

        Parameters
        ----------
        nodes
            One per task.
        sign
            1 to give the resources back.
        """
        used, counts = self._count(nodes)
        self.free[used] += sign * counts[:, None] * np.array(task_resources.vector)

    def release(self, nodes: Sequence[str], task_resources: Resources) -> None:
        """Give the resources of tasks on nodes back."""
        self.take(nodes, task_resources, 1)

    def task_counts(self, task_resources: Resources) -> NDArray[np.int64]:
        """Return how many tasks there is room for on each node, shape (nodes,)."""
        needs = np.array(task_resources.vector, dtype=np.int64)
        needed = needs > 0
        counts: NDArray[np.int64] = (self.free[:, needed] // needs[needed]).min(
            axis=1, initial=2**40
        )
        counts = counts.clip(0)
        counts[~self.up] = 0
        return counts

    def tasks_by_node(self, task_resources: Resources) -> dict[str, int]:
        """Return how many tasks there is room for, by name of the node."""
        return dict(zip(self.names, self.task_counts(task_resources).tolist(), strict=True))

    def holds(self, nodes: Sequence[str], task_resources: Resources) -> bool:
        """Return whether there is room for a task on each of some nodes."""
        used, counts = self._count(nodes)
        return bool((self.task_counts(task_resources)[used] >= counts).all())

    def _count(self, nodes: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the indices of the nodes of some tasks, and the tasks on each."""
        key = tuple(nodes)
        if key not in self._counted:
            if len(self._counted) >= _MAX_KNOWN:
                self._counted.clear()
            indices = [self.index[node] for node in key]
            self._counted[key] = np.unique(np.array(indices, np.int64), return_counts=True)
        return self._counted[key]
