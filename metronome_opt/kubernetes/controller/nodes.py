"""Nodes of a cluster: availability, and resources that other pods hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.fields import KubernetesObject
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.reading.resources import count_offered, has_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.nodes import Resources


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
        self.differing: list[tuple[KubernetesObject, str]] = []

    def follow(self, nodes: Iterable[KubernetesObject]) -> None:
        """Update the nodes that take tasks, and since when others are not ready."""
        now, there = self._clock(), {node.name: node for node in nodes}
        self.gone = self._numbers.keys() - there.keys()
        for name in self._numbers:
            node = there.get(name)
            conditions = node.at("status.conditions").items() if node else []
            states = {(state / "type").value: (state / "status").value for state in conditions}
            if states.get("Ready") == "True":
                self._unready.pop(name, None)
            else:
                self._unready.setdefault(name, now)
            is_cordoned = node is not None and node.at("spec.unschedulable").flag()
            self._state.set_node(name, up=name not in self._unready and not is_cordoned)

    def unready_s(self, name: str) -> float:
        """Return the seconds for which a node has not been ready, 0 if it is."""
        now = self._clock()
        return now - self._unready.get(name, now)

    def count_others(
        self,
        pods: Iterable[Pod],
        nodes: Iterable[KubernetesObject],
        claimable: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Update the resources that pods without a reservation hold, and that nodes have lost.

        A node may have more than the state knows of; other pods get the surplus first. Devices
        that can be claimed are given by node and resource.
        """
        held, needs = np.zeros_like(self._state.total), {}
        for pod in pods:
            number = self._numbers.get(pod.node or pod.place or "")
            if number is None or pod.is_over or (pod.asks and pod.job in self._state.reservations):
                continue
            key = (pod.uid, pod.version)
            last = None if pod.at("spec.resourceClaims") else self._needs.get(key)
            needs[key] = last or _needs(pod)  # what is claimed may become known later
            held[number] += needs[key]
        self._needs = needs
        self.differing = []
        for node in nodes:
            number = self._numbers.get(node.name)
            has = self._has_of(node, claimable.get(node.name, {}))
            if has is None:
                continue
            known = 0 if number is None else int(self._state.total[number, 0])
            if has.gpus != known:
                message = f"has {has.gpus} GPUs, and {known} in the state of the controller"
                self.differing.append((node, message))
            if number is not None:
                held[number] += self._state.total[number] - has.vector
        self._state.others = held.clip(0)

    def _has_of(self, node: KubernetesObject, devices: Mapping[str, int]) -> Resources | None:
        """Return the resources of a node for pods; None if it does not state them."""
        stated = node.at("status.allocatable") or node.at("status.capacity")
        if not stated:
            return None
        key = stated.value, devices
        if node.name not in self._has or self._has[node.name][0] != key:
            self._has[node.name] = key, has_of(node, count_offered(node, devices))
        return self._has[node.name][1]


def _needs(pod: Pod) -> tuple[int, ...]:
    with suppress(InputError):  # no API server would take such a pod
        return pod.needs.vector
    return (0, 0, 0)
