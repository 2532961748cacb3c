"""Switches above the nodes of a cluster, by labels and by objects of its schedulers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from metronome_opt.errors import error_context, first_few
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject
from metronome_opt.kubernetes.reading.kinds import HYPER_NODE, TOPOLOGY
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.tree import Way, Wiring

_TIER = re.compile(r"fabric\.topograph\.run/tier-([0-9]{1,4})")
_OLDER = [  # older labels of Topograph, in two forms
    f"network.topology.nvidia.com/{tier}"
    for tier in ("leaf", "block", "spine", "core", "datacenter")
]
_HOST = "kubernetes.io/hostname"  # a level of single nodes
_PLAIN = re.compile(r"\\.|\[\^?\]?(\\.|[^]\\])*\]")  # in patterns: no choices
_REPEATED_GROUP = re.compile(r"\)[*+{]|#")  # or a comment, which may stand between
_REPEAT = re.compile(r"[*+]|\{[0-9]*,|(?<!\()\?")
_MAX_CHOICES = 4  # repeats and groups of alternatives in a pattern, which multiply the attempts

_Known = Mapping[str, KubernetesObject]


def switches_of(objects: Objects, nodes: _Known, notes: list[str]) -> dict[str, Way]:
    """Return the switches above each node that has any, from the lowest up.

    HyperNodes go before Topologies, and these before the labels of Topograph. Members that do not
    exist are appended to `notes`.
    """
    wired = _by_hyper_nodes(objects, nodes, notes)
    levels = [_levels(topology) for topology in objects.of(TOPOLOGY)]
    ways = {}
    for name, node in nodes.items():
        labels = node.labels
        by_level = max((_labelled(labels, keys) for keys in levels), key=len, default=())
        tiers = sorted((int(found[1]), key) for key in labels if (found := _TIER.fullmatch(key)))
        by_topograph = _labelled(labels, [key for _, key in tiers] or _OLDER)
        way = wired.get(name) or by_level or by_topograph
        if way:
            ways[name] = way
    return ways


def _labelled(labels: Mapping[str, str], keys: Collection[str]) -> Way:
    return tuple(labels[key] for key in keys if labels.get(key))


def _levels(topology: KubernetesObject) -> list[str]:
    """Return the labels of a Topology of Kueue or KAI, the lowest level first."""
    levels = topology.at("spec.levels")
    keys = [(level / "nodeLabel").text() for level in levels.items()]
    if not keys:
        levels.fail("missing; a Topology names the labels of its levels")
    return [key for key in reversed(keys) if key != _HOST]


# ------------------------------------------------------------------ HyperNodes


def _by_hyper_nodes(objects: Objects, nodes: _Known, notes: list[str]) -> Mapping[str, Way]:
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
            if missing:
                notes.append(f"{member.position}: there is no {type_} {first_few(missing)}")
            wiring.add(member.position, above.name, kind, names)
    with error_context("HyperNodes"):
        return wiring.ways()


def _selected(selector: Field, known: _Known) -> Collection[str]:
    """Return the names that a selector of members chooses."""
    exact, pattern, labels = (selector / f"{kind}Match" for kind in ("exact", "regex", "label"))
    if exact:
        return [(exact / "name").text()]
    if pattern:
        text = (pattern / "pattern").text()
        try:
            regex = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            (pattern / "pattern").fail(f"must be a regular expression ({error})")
        if not _is_fast(text):
            most = f"must repeat no group, and have at most {_MAX_CHOICES} repeats and groups"
            (pattern / "pattern").fail(f"{most}, or it may match for ever; write several members")
        return [name for name in known if regex.search(name)]
    if not labels:
        selector.fail("must have exactMatch, regexMatch or labelMatch")
    return [name for name, item in known.items() if _matches(labels, item.labels)]


def _is_fast(pattern: str) -> bool:
    """Return True if backtracking through a pattern is sure to end soon."""
    plain = _PLAIN.sub("x", "".join(pattern.split()))
    groups = plain.count("(") if "|" in plain else 0
    choices = len(_REPEAT.findall(plain)) + groups
    return _REPEATED_GROUP.search(plain) is None and choices <= _MAX_CHOICES


def _matches(selector: Field, labels: Mapping[str, str]) -> bool:
    """Return True if labels match a label selector."""
    wanted = (selector / "matchLabels").texts()
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    for expression in (selector / "matchExpressions").items():
        key, operator = (expression / "key").text(), expression / "operator"
        values = [value.value for value in (expression / "values").items()]
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if operator.text() not in holds:
            operator.fail(f"must be one of {', '.join(holds)}")
        if not holds[operator.value]:
            return False
    return True
