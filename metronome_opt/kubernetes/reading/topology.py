"""Switches above the nodes of a cluster, by labels and by objects of its schedulers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from metronome_opt.errors import error_context, first_few
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject
from metronome_opt.kubernetes.reading.kinds import HYPER_NODE, TOPOLOGY
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.patterns import compile_pattern
from metronome_opt.kubernetes.reading.pods import HOSTNAME
from metronome_opt.kubernetes.reading.selectors import matches
from metronome_opt.kubernetes.reading.tree import UplinkPath, Wiring

_TOPOGRAPH = re.compile(r"fabric\.topograph\.run/tier-([0-9]{1,4})")
_EKS = re.compile(r"topology\.k8s\.aws/network-node-layer-([0-9]{1,4})")  # 1 is at the top
_LEVELS = [  # other labels of nodes that name their switches, the lowest level first
    [f"{prefix}{name}" for name in names.split()]
    for prefix, names in (
        ("network.topology.nvidia.com/", "leaf block spine core datacenter"),  # older Topograph
        ("cloud.google.com/gce-topology-", "host subblock block"),
        ("oci.oraclecloud.com/rdma.", "local_block_id network_block_id hpc_island_id"),
    )
]

_Known = Mapping[str, KubernetesObject]


def switches_of(objects: Objects, nodes: _Known, notes: list[str]) -> dict[str, UplinkPath]:
    """Return the switches above each node that has any, from the lowest up.

    HyperNodes go before Topologies, and these before the labels of Topograph and of clouds. Members
    that do not exist are appended to `notes`.
    """
    wired = hyper_nodes_above(objects, nodes, notes)
    uplink_paths = {name: wired[name] for name in nodes if name in wired}
    keys = {key for node in nodes.values() for key in node.labels}
    found = []
    for topology in objects.of(TOPOLOGY):
        found.append(_labelled(nodes, levels := _levels(topology)))
        if levels and keys.isdisjoint(levels):
            notes.append(f"{topology.title}: no node has its labels, {first_few(levels)}")
    by_topology = {name: max((its[name] for its in found), key=len, default=()) for name in nodes}
    labels = (_numbered(_TOPOGRAPH, keys), _numbered(_EKS, keys)[::-1], *_LEVELS)
    for source in (by_topology, *(_labelled(nodes, levels) for levels in labels)):
        for name in nodes:
            if source[name]:
                uplink_paths.setdefault(name, source[name])
    return uplink_paths


def _numbered(label: re.Pattern[str], keys: Collection[str]) -> list[str]:
    """Return the keys of numbered labels, the smallest number first."""
    tiers = sorted((int(found[1]), key) for key in keys if (found := label.fullmatch(key)))
    return [key for _, key in tiers]


def _labelled(nodes: _Known, keys: Sequence[str]) -> dict[str, UplinkPath]:
    """Return the switches above nodes by labels; a level of single nodes is none."""
    while keys:
        values = ([node.labels.get(key) for key in keys] for node in nodes.values())
        groups = Counter(tuple(uplink_path) for uplink_path in values if uplink_path[0])
        if len(groups) < 2 or max(groups.values()) > 1:
            break
        keys = keys[1:]
    return {
        name: tuple(node.labels[key] for key in keys if node.labels.get(key))
        for name, node in nodes.items()
    }


def _levels(topology: KubernetesObject) -> list[str]:
    """Return the labels of a Topology of Kueue or KAI, the lowest level first."""
    levels = topology.at("spec.levels")
    keys = [(level / "nodeLabel").text() for level in levels.items()]
    if not keys:
        levels.fail("missing; a Topology names the labels of its levels")
    return [key for key in reversed(keys) if key != HOSTNAME]


# ------------------------------------------------------------------ HyperNodes


def hyper_nodes_above(
    objects: Objects, nodes: _Known, notes: list[str]
) -> Mapping[str, UplinkPath]:
    """Return the HyperNodes above each node that has any, from the lowest up."""
    wiring = Wiring()
    hypers = {hyper.name: hyper for hyper in objects.of(HYPER_NODE)}
    kinds = {"Node": ("node", nodes), "HyperNode": ("switch", hypers)}
    for above in hypers.values():
        for member in above.at("spec.members").items():
            type_ = (member / "type").text()
            if type_ not in kinds:
                (member / "type").fail("must be Node or HyperNode")
            kind, known = kinds[type_]
            names = _selected(member / "selector", known)
            missing = sorted(set(names) - known.keys())
            if missing or not names:
                which = first_few(missing) if missing else "that its selector matches"
                notes.append(f"{member.position}: there is no {type_} {which}")
            wiring.add(member.position, above.name, kind, names)
    with error_context("HyperNodes"):
        return wiring.uplink_paths()


def _selected(selector: Field, known: _Known) -> Collection[str]:
    """Return the names that a selector of members chooses."""
    exact, pattern, labels = (selector / f"{kind}Match" for kind in ("exact", "regex", "label"))
    if exact:
        return [(exact / "name").text()]
    if pattern:
        regex = compile_pattern(pattern / "pattern")
        return [name for name in known if regex.search(name)]
    if not labels:
        selector.fail("must have exactMatch, regexMatch or labelMatch")
    return [name for name, item in known.items() if matches(labels, item.labels)]
