"""Nodes of a cluster: availability, and resources that other pods hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.reading.resources import has_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.nodes import Resources

Node = Mapping[str, Any]


class Nodes:
    """The nodes of a state, updated from round to round.

    Attributes
    ----------
    gone
        Nodes of the state that the cluster does not have.
    differing
        Nodes with more or fewer GPUs than in the state, with messages.
    """

    def __init__(self, state: ClusterState, clock: Callable[[], float]) -> None:
        self._state, self._clock = state, clock
        self._numbers = state.index
        self._unready: dict[str, float] = {}  # since when
        self._needs: dict[tuple[str, str], tuple[int, ...]] = {}  # by uid and version of the pod
        self._has: dict[str, tuple[Any, Resources]] = {}  # by name: as stated
        self.gone: set[str] = set()
        self.differing: list[tuple[Node, str]] = []

    def follow(self, nodes: Iterable[Node]) -> None:
        """Update the nodes that take tasks, and since when others are not ready."""
        now, there = self._clock(), {_name(node): node for node in nodes}
        self.gone = self._numbers.keys() - there.keys()
        for name in self._numbers:
            node = there.get(name, {})
            conditions = (node.get("status") or {}).get("conditions") or ()
            if any((state["type"], state["status"]) == ("Ready", "True") for state in conditions):
                self._unready.pop(name, None)
            else:
                self._unready.setdefault(name, now)
            cordoned = bool(node) and bool(node["spec"].get("unschedulable"))
            self._state.set_node(name, up=name not in self._unready and not cordoned)

    def unready_s(self, name: str) -> float:
        """Return the seconds for which a node has not been ready, 0 if it is."""
        now = self._clock()
        return now - self._unready.get(name, now)

    def count_others(self, pods: Iterable[Pod], nodes: Iterable[Node]) -> None:
        """Update the resources that pods without a reservation hold, and that nodes have lost.

        A node may have more than the state knows of; other pods get the surplus first.
        """
        held, needs = np.zeros_like(self._state.total), {}
        for pod in pods:
            number = self._numbers.get(pod.node or pod.place or "")
            if number is None or pod.is_over or (pod.asks and pod.job in self._state.reservations):
                continue
            key = (pod.uid, pod.version)
            needs[key] = self._needs.get(key) or _needs(pod)
            held[number] += needs[key]
        self._needs = needs
        self.differing = []
        for node in nodes:
            number, has = self._numbers.get(_name(node)), self._has_of(node)
            if has is None:
                continue
            known = 0 if number is None else int(self._state.total[number, 0])
            if has.gpus != known:
                message = f"has {has.gpus} GPUs, and {known} in the state of the controller"
                self.differing.append((node, message))
            if number is not None:
                held[number] += self._state.total[number] - has.vector
        self._state.others = held.clip(0)

    def _has_of(self, node: Node) -> Resources | None:
        """Return the resources of a node for pods; None if it does not state them."""
        status, name = node.get("status") or {}, _name(node)
        stated = status.get("allocatable") or status.get("capacity")
        if not stated:
            return None
        if name not in self._has or self._has[name][0] != stated:
            self._has[name] = stated, has_of(Field(node, f"Node {name}"))
        return self._has[name][1]


def _name(node: Node) -> str:
    return str(node["metadata"]["name"])


def _needs(pod: Pod) -> tuple[int, ...]:
    with suppress(InputError):  # no API server would take such a pod
        return pod.needs.vector
    return (0, 0, 0)
