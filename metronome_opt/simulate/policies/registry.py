"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from metronome_opt.errors import InputError, show
from metronome_opt.simulate.policies.cassini import Cassini
from metronome_opt.simulate.policies.greedy import MetronomeGreedy
from metronome_opt.simulate.policies.metronome import Metronome
from metronome_opt.simulate.policies.plain import Default, Exclusive, Ideal
from metronome_opt.simulate.policies.policy import Policy
from metronome_opt.simulate.policies.proposal import Proposal

POLICIES = {
    "default": "spread by free GPUs, no network, no shifting",
    "exclusive": "bandwidth reserved at peak, jobs wait for it",
    "cassini": "most compatible placement, time shifts of CASSINI",
    "metronome-greedy": "fewest conflicts of the new job, then least contention, rotated once",
    "proposal": "filter, score and reserve on one hyperperiod, as a cluster would",
    "metronome": "placement, admission and offsets by what they bring, priorities, cushions",
    "ideal": "a network that is never in the way: the bound",
}
PARTS = {
    "placing": "metronome's placement; nobody waits for room or is shifted",
    "admitting": "metronome's placement and admission; nobody is shifted",
    "shifted-greedy": "metronome with offsets of the greedy rotation",
    "shifted-cassini": "metronome with offsets by CASSINI's method",
    "shifted-local": "metronome with offsets by local search",
}
"""Parts of `metronome`, to see what brings how much."""

_MAKE: dict[str, Callable[[int], Policy]] = {
    "default": Default,
    "exclusive": Exclusive,
    "cassini": Cassini,
    "metronome-greedy": MetronomeGreedy,
    "proposal": Proposal,
    "metronome": Metronome,
    "ideal": Ideal,
    "placing": partial(Metronome, admission=False, shifting=False),
    "admitting": partial(Metronome, shifting=False),
    "shifted-greedy": partial(Metronome, solver="greedy"),
    "shifted-cassini": partial(Metronome, solver="cassini"),
    "shifted-local": partial(Metronome, solver="local"),
}


def find_policy(name: str, seed: int) -> Policy:
    """Return the policy called `name`; an unknown name is an `InputError` that lists them all."""
    if name not in _MAKE:
        raise InputError(f"policy: {show(name)} is not known; choose from {', '.join(_MAKE)}")
    return _MAKE[name](seed)
