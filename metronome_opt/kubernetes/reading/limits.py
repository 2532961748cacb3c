"""Constraints of pods on their nodes, as limits of a job: selectors, affinities, topologies.

Required constraints become `within` and `allowed_nodes`, or are refused; preferred ones are noted,
as placements are chosen by loss.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject, UnsuitableError
from metronome_opt.kubernetes.reading.kinds import HYPER_NODE, POD_GROUP
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import HOSTNAME, Pod
from metronome_opt.kubernetes.reading.resources import RUNTIMES, scheduling_policies
from metronome_opt.kubernetes.reading.selectors import holds, matches
from metronome_opt.kubernetes.reading.topology import hyper_nodes_above
from metronome_opt.kubernetes.reading.tree import UplinkPath
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.placement_limits import NO_LIMITS, PlacementLimits, name_tiers

NO_NODE = "allowed on no node, by its selectors, affinities or topology"
"""The reason why a job is dropped."""

_KUEUE, _KAI, _VOLCANO = "kueue.x-k8s.io/podset-", "kai.scheduler/topology-", "volcano.sh/network-"
_SPREADING = f"{_KUEUE}topology-spreading"
_REQUIRED = (f"{_KUEUE}required-topology", f"{_KAI}required-placement")  # labels of a domain
_PREFERRED = (
    *(f"{_KUEUE}preferred-topology", f"{_KAI}preferred-placement", _SPREADING),
    "kai.scheduler/segment-topology-preferred-placement",
)
_REFUSED = (  # constraints on parts of a job
    f"{_KUEUE}slice-required-topology-constraints",
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
    "gang.scheduling.koordinator.sh/network-topology-spec",
)
_SLICES = {  # labels of a domain for each slice of a job, with annotations of the pods of a slice
    f"{_KUEUE}slice-required-topology": f"{_KUEUE}slice-size",
    "kai.scheduler/segment-topology-required-placement": "kai.scheduler/segment-size",
}
_TIER = f"{_VOLCANO}topology-highest-tier", f"{_VOLCANO}topology-mode"
CONSTRAINTS = frozenset((*_REQUIRED, *_PREFERRED, *_REFUSED, *_SLICES, *_SLICES.values(), *_TIER))
"""Annotations that state constraints."""

_LABELS = (  # of policies of Kubernetes, the newest first
    ("schedulingConstraints.topology", "key"),
    ("schedulingConstraints.topologyConstraints", "topologyKey"),
    ("constraints.topology", "key"),
)
_GROUP_NAMES = (  # annotations of pods
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
)
_PARTS = ("tasks", "subGroupPolicy", "subGroups")  # of Jobs and PodGroups of Volcano, and of KAI
_KAI_LEVEL = "topologyConstraint.requiredTopologyLevel"
_OF_PARTS = "constraints on parts of a job, or that keep jobs apart, are not read"
_REMEDY = "remove it, or annotate the workload with ignore"
_PREFERENCES = "preferredDuringSchedulingIgnoredDuringExecution"
_CONSTRAINTS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
_RULES = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Asked:
    """Pods that ask for nodes together."""

    source: KubernetesObject
    templates: Sequence[Field]  # with metadata and spec
    annotations: Mapping[str, str]
    tasks: int
    task_resources: Resources
    group: str | None = None  # their PodGroup, if they name one
    nodes: Sequence[str] = ()  # on which they run


@dataclass(frozen=True)
class LimitReader:
    """The cluster by which constraints are read."""

    cluster: Cluster
    objects: Objects  # HyperNodes and PodGroups
    nodes: Mapping[str, KubernetesObject]
    pods: Sequence[Pod]  # that have not ended
    _selected: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    @cached_property
    def _hypers(self) -> Mapping[str, KubernetesObject]:
        return {hyper.name: hyper for hyper in self.objects.of(HYPER_NODE)}

    @cached_property
    def _pod_groups(self) -> Sequence[KubernetesObject]:
        return self.objects.of(POD_GROUP)

    @cached_property
    def _hyper_paths(self) -> Mapping[str, UplinkPath]:
        """The HyperNodes above nodes."""
        return hyper_nodes_above(self.objects, self.nodes, [])

    def read(self, asked: Asked) -> tuple[dict[str, Any], list[str]]:
        """Return limits as fields of a job, and what is preferred.

        Raises
        ------
        InputError
            If a constraint is none of nodes or of tiers, or the nodes of running pods exceed one.
        UnsuitableError
            If no node is allowed.
        """
        policies = self._policies(asked)
        templates = {str(_constraints(template)): template for template in asked.templates}
        asked = replace(asked, templates=list(templates.values()))
        preferred: list[str] = []
        allowed = self._allowed(asked, preferred)
        groupings = [*self._groupings(asked, policies, preferred)]
        for _, groups in groupings:
            allowed &= {node for node, group in groups.items() if group is not None}
        if not allowed:
            raise UnsuitableError(NO_NODE)
        tiers = [
            self._tier_of(where, {node: groups[node] for node in allowed})
            for where, groups in groupings
        ]
        known = [tier for tier in tiers if tier is not None]
        limits: dict[str, Any] = {"within": min(known)} if known else {}
        if len(allowed) < len(self.nodes):
            limits["allowed_nodes"] = self._name_nodes(allowed)
        exceeded = NO_LIMITS._replace(**limits).violation(self.cluster, asked.nodes)
        if exceeded is not None:
            raise InputError(exceeded)
        return limits, preferred

    # ------------------------------------------------------------------ nodes

    def _allowed(self, asked: Asked, preferred: list[str]) -> set[str]:
        """Return the nodes that each pod may have, whatever the others have."""
        sets = []
        for template in asked.templates:
            spec = template / "spec"
            affinity = spec / "affinity"
            kinds = ("nodeAffinity", "podAffinity", "podAntiAffinity")
            preferred += [kind for kind in kinds if affinity.at(f"{kind}.{_PREFERENCES}").items()]
            key = str(_constraints(template))
            if key not in self._selected:
                found = (name for name, node in self.nodes.items() if _selects(spec, node))
                self._selected[key] = frozenset(found)
            chosen = {*self._selected[key]}
            for kind, is_near in (("podAffinity", True), ("podAntiAffinity", False)):
                for term in (affinity / kind / _RULES).items():
                    if not _is_own(template, term):
                        near = self._near(asked, term)
                        chosen = chosen & near if is_near else chosen - near
            sets.append(chosen)
        if any(chosen != sets[0] for chosen in sets):
            asked.source.fail("pods of its templates may run on different nodes; make them equal")
        return sets[0] if sets else {*self.nodes}

    def _near(self, asked: Asked, term: Field) -> set[str]:
        """Return the nodes in whose domain a pod runs that a term of affinity is about."""
        key, near = (term / "topologyKey").text(), set[str | None]()
        selector = term / "labelSelector"
        spaces = [item.text() for item in (term / "namespaces").items()]
        spaces = spaces or [asked.source.namespace]
        if term / "namespaceSelector":
            (term / "namespaceSelector").fail(f"is not read; name namespaces, or {_REMEDY}")
        for pod in self.pods:
            is_there = pod.node in self.nodes and pod.namespace in spaces
            if pod.node and is_there and selector and matches(selector, pod.labels):
                near.add(self._domain(pod.node, key))
        return {name for name in self.nodes if self._domain(name, key) in near - {None}}

    def _domain(self, node: str, key: str) -> str | None:
        value = self.nodes[node].labels.get(key)
        return node if value is None and key == HOSTNAME else value

    def _name_nodes(self, allowed: set[str]) -> list[str]:
        """Return nodes by name, racks instead of all nodes in them."""
        names: dict[str, None] = {}
        below: dict[str, set[str]] = defaultdict(set)
        for node in self.cluster.nodes:
            for rack in self.cluster.uplink_paths[node.rack]:
                below[rack].add(node.name)
        for node in self.cluster.nodes:
            if node.name in allowed:
                racks = self.cluster.uplink_paths[node.rack]
                whole = [rack for rack in racks if below[rack] <= allowed]
                names[whole[-1] if whole else node.name] = None
        return [*names]

    # ------------------------------------------------------------------ domains of all pods

    def _groupings(
        self, asked: Asked, policies: Sequence[Field], preferred: list[str]
    ) -> Iterator[tuple[Field, Mapping[str, str | None]]]:
        """Yield groups of nodes of which all pods are in one; a node without a group is in none."""
        for term in self._own_terms(asked, preferred):
            yield term, self._by_label((term / "topologyKey").text())
        stated = _labels_of_annotations(asked, preferred)
        for key in (*stated, *_labels_of_policies(policies, preferred)):
            yield key, self._by_label(key.text())
        yield from self._by_tiers(asked, policies, preferred)

    def _by_label(self, key: str) -> dict[str, str | None]:
        return {name: self._domain(name, key) for name in self.nodes}

    def _own_terms(self, asked: Asked, preferred: list[str]) -> Iterator[Field]:
        """Yield terms by which pods of the job are near one another; refuse others of its own."""
        for template in asked.templates:
            spec = template / "spec"
            for term in spec.at(f"affinity.podAffinity.{_RULES}").items():
                if _is_own(template, term):
                    yield term
            apart = [
                term
                for term in spec.at(f"affinity.podAntiAffinity.{_RULES}").items()
                if _is_own(template, term)
            ]
            for rule in (spec / "topologySpreadConstraints").items():
                if (rule / "whenUnsatisfiable").value == "ScheduleAnyway":
                    preferred.append("topologySpreadConstraints")
                elif _is_own(template, rule):
                    apart.append(rule)
            most = max(asked.task_resources.gpus, 1)
            hosts_two = any(node.has.gpus >= 2 * most for node in self.cluster.nodes)
            for term in apart:
                if hosts_two or (term / "topologyKey").value != HOSTNAME:
                    term.fail(f"keeps pods of one job apart, which placements cannot; {_REMEDY}")

    def _by_tiers(
        self, asked: Asked, policies: Sequence[Field], preferred: list[str]
    ) -> Iterator[tuple[Field, Mapping[str, str | None]]]:
        """Yield the groups of Volcano's constraints, by tiers of HyperNodes."""
        fields = [policy / "networkTopology" for policy in policies] + _tier_annotation(asked)
        for constraint in filter(None, fields):
            mode = constraint / "mode"
            if mode.text("hard") not in ("hard", "soft"):
                mode.fail("must be hard or soft")
            if mode.value == "soft":
                preferred.append("networkTopology of mode soft")
            elif (highest := self._highest(constraint)) is not None:
                yield constraint, self._below_tier(constraint, highest)

    def _highest(self, constraint: Field) -> int | None:
        """Return the highest tier of a constraint of Volcano; None if it allows all."""
        name = constraint / "highestTierName"
        if not name:
            tier = constraint / "highestTierAllowed"
            return tier.integer(0) if tier else None
        tiers = {
            (hyper.at("spec.tier")).integer(0)
            for hyper in self._hypers.values()
            if hyper.at("spec.tierName").value == name.text()
        }
        if len(tiers) != 1:
            name.fail("is the tierName of no HyperNode, or of several tiers; read the HyperNodes")
        return tiers.pop()

    def _below_tier(self, constraint: Field, highest: int) -> Mapping[str, str | None]:
        tiers = {name: hyper.at("spec.tier").integer(0) for name, hyper in self._hypers.items()}
        if not tiers:
            constraint.fail("is about HyperNodes, and none was read; read them as well")
        if highest > max(tiers.values()):
            return dict.fromkeys(self.nodes, "")  # the one that Volcano puts above all
        groups: dict[str, str | None] = {}
        for node in self.nodes:
            uplink_path = [
                hyper for hyper in self._hyper_paths.get(node, ()) if tiers[hyper] <= highest
            ]
            groups[node] = uplink_path[-1] if uplink_path else None
        return groups

    def _policies(self, asked: Asked) -> list[Field]:
        """Return what states constraints on all pods of a job: of its PodGroups and workloads."""
        found = [group / "spec" for group in self._groups(asked)]
        found += _policies_of_workloads(asked.templates)
        parts = [part for policy in found for name in _PARTS for part in (policy / name).items()]
        for part in parts:
            for name in ("partitionPolicy.networkTopology", "networkTopology"):
                if (inner := part.at(name)) and (inner / "mode").value != "soft":
                    inner.fail(f"{_OF_PARTS}; {_REMEDY}")
            if part.at(_KAI_LEVEL):
                part.fail(f"{_OF_PARTS}; {_REMEDY}")
        return found

    def _groups(self, asked: Asked) -> list[KubernetesObject]:
        """Return the PodGroups of pods: those that they name, or that their workload owns."""
        source = asked.source
        names = {asked.group, *map(asked.annotations.get, _GROUP_NAMES)}
        owners = {(source.kind, source.name), source.owner} - {None}
        return [
            group
            for group in self._pod_groups
            if group.namespace == source.namespace
            and (group.name in names or group.owner in owners)
        ]

    # ------------------------------------------------------------------ tiers of the cluster

    @cached_property
    def _partitions(self) -> Sequence[Mapping[str, str]]:
        """The switch of each tier, or the node below it, by node."""
        tiers = range(self.cluster.depth + 1)
        return [PlacementLimits(within=tier).domains(self.cluster) or {} for tier in tiers]

    def _tier_of(self, where: Field, groups: Mapping[str, str | None]) -> int | None:
        """Return the tier whose switches have the nodes of some groups; None for a single group."""
        if len({*groups.values()}) < 2:
            return None
        for tier, switches in enumerate(self._partitions):
            pairs = {(group, switches[node]) for node, group in groups.items()}
            if len(pairs) == len({*groups.values()}) == len({switch for _, switch in pairs}):
                return tier
        return where.fail(
            f"its groups of nodes are those of no tier of switches, {name_tiers(self.cluster)}; "
            f"read the Topology or the HyperNodes with this level, or {_REMEDY}"
        )


def _tier_annotation(asked: Asked) -> list[Field]:
    """Return the constraint of Volcano that annotations state, if they do."""
    tier, mode = (asked.annotations.get(key) for key in _TIER)
    if tier is None and mode is None:
        return []
    number = int(tier) if tier is not None and re.fullmatch("[0-9]{1,9}", tier) else tier
    value = {"mode": mode, "highestTierAllowed": number}
    return [Field(value, f"{asked.source.where}: annotation {_TIER[0]}")]


def _is_own(template: Field, term: Field) -> bool:
    """Return whether a term is about pods of the job itself."""
    labels = template.at("metadata.labels").texts()
    return bool(term / "labelSelector") and matches(term / "labelSelector", labels)


def _labels_of_annotations(asked: Asked, preferred: list[str]) -> Iterator[Field]:
    """Yield labels that name a domain for all pods of a job."""
    stated, where = asked.annotations, f"{asked.source.where}: annotation"
    at = {key: Field(text, f"{where} {key}") for key, text in stated.items()}
    for key in filter(stated.__contains__, _REFUSED):
        at[key].fail(f"{_OF_PARTS}; {_REMEDY}")
    for key, size in _SLICES.items():
        if key in stated and stated.get(size) != str(asked.tasks):
            of = f"slices of {stated.get(size)} of its {asked.tasks} pods"
            at[key].fail(f"{of}: {_OF_PARTS}; {_REMEDY}")
    modes = set(re.findall("Required|Preferred", stated.get(_SPREADING, "Preferred")))
    if modes != {"Preferred"}:
        at[_SPREADING].fail(f"{_OF_PARTS}; {_REMEDY}")
    yield from (at[key] for key in (*_REQUIRED, *_SLICES) if key in stated)
    preferred += [f"{key} {stated[key]}" for key in _PREFERRED if key in stated]


def _labels_of_policies(policies: Iterable[Field], preferred: list[str]) -> Iterator[Field]:
    """Yield labels that name a domain for all pods of a job."""
    for policy in policies:
        for path, name in _LABELS:
            yield from (item / name for item in policy.at(path).items())
        placement, constraint = policy / "groupPlacementPolicy", policy / "topologyConstraint"
        if (placement / "type").value not in (None, "None", "Colocated"):
            placement.fail(f"{_OF_PARTS}; {_REMEDY}")
        yield from filter(None, (placement / "topologyKey", constraint / "requiredTopologyLevel"))
        if level := constraint / "preferredTopologyLevel":
            preferred.append(f"{level.position} {level.value}")


def _policies_of_workloads(templates: Iterable[Field]) -> Iterator[Field]:
    """Yield what the workloads that hold templates, or their runtimes, state for all pods."""
    jobs: dict[str, tuple[KubernetesObject, set[str]]] = {}  # by location of their workload
    for template in templates:
        if (root := template.root) is not None:
            jobs.setdefault(root.position, (root, set()))[1].update(_replicated_job(root, template))
    for root, names in jobs.values():
        if root.group in ("batch.volcano.sh", "leaderworkerset.x-k8s.io"):
            yield root / "spec"
        if root.kind in (*RUNTIMES, "TrainJob"):
            yield root.at("spec.podGroupPolicy.volcano")
        for policy, targets in scheduling_policies(root):
            if policy.path[-1] != "job" and (targets is None or names <= {*targets}):
                yield policy
            elif _is_constrained(policy) and not names.isdisjoint(targets or ()):
                policy.fail(f"{_OF_PARTS}; {_REMEDY}")


def _is_constrained(policy: Field) -> bool:
    return any(policy.at(path).items() for path, _ in _LABELS)


def _replicated_job(root: KubernetesObject, template: Field) -> set[str]:
    """Return the name of the job of a JobSet that has a template; nothing of other kinds."""
    path = [*template.path]
    if "replicatedJobs" not in path:
        return set()
    end = path.index("replicatedJobs") + 1
    job = root.at(".".join(map(str, path[:end]))).items()[int(path[end])]
    return {(job / "name").text()}


def _constraints(template: Field) -> list[Any]:
    """Return what decides on which nodes a pod may run."""
    spec = template / "spec"
    kinds = [(container / "resources").value for container in (spec / "containers").items()]
    return [*((spec / name).value for name in _CONSTRAINTS), kinds]


def _selects(spec: Field, node: KubernetesObject) -> bool:
    """Return whether a pod may run on a node by its selector, its affinity and its taints."""
    labels = {HOSTNAME: node.name, **node.labels}
    wanted = (spec / "nodeSelector").texts()
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    terms = spec.at(f"affinity.nodeAffinity.{_RULES}.nodeSelectorTerms").items()
    if terms and not any(_holds_term(term, labels, node.name) for term in terms):
        return False
    return all(_is_tolerated(spec, taint) for taint in node.at("spec.taints").items())


def _holds_term(term: Field, labels: Mapping[str, str], name: str) -> bool:
    by_label, by_name = (term / "matchExpressions").items(), (term / "matchFields").items()
    return bool(by_label or by_name) and all(
        holds(expression, its)
        for expressions, its in ((by_label, labels), (by_name, {"metadata.name": name}))
        for expression in expressions
    )


def _is_tolerated(spec: Field, taint: Field) -> bool:
    """Return whether pods tolerate a taint; conditions of nodes and names of resources count not.

    Kubernetes lets pods tolerate taints that are named like a resource that they ask for.
    """
    key, effect = (taint / "key").text(), (taint / "effect").value
    if effect not in ("NoSchedule", "NoExecute") or key.startswith("node.kubernetes.io/"):
        return True
    for container in (spec / "containers").items():
        if any(container.at(f"resources.{kind}") / key for kind in ("limits", "requests")):
            return True
    return any(
        (toleration / "effect").value in (None, "", effect)
        and (toleration / "key").value in (None, "", key)
        and (
            (toleration / "operator").value == "Exists"
            or (
                (toleration / "key").value == key
                and ((toleration / "value").value or "") == ((taint / "value").value or "")
            )
        )
        for toleration in (spec / "tolerations").items()
    )
