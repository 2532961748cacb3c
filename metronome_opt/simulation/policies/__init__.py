"""Policies: placement, admission and windows of jobs.

A policy is a subclass of `baselines.Policy`: in the table below, or in another package, which names
the class in an entry point of the group ``metronome_opt.policies``. Command line, studies,
campaigns and figures know all policies by name. Plug-ins are imported when they are used, and do
not replace policies of this package.

Keyword-only parameters of the class are options, which follow the name:
``metronome:slots=no:waits=no``. All policies have one more, ``routing``, as of a `Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import explain
from metronome_opt.plugins import guarded, load_plugin, plugins
from metronome_opt.scenario.cluster import Routing

if TYPE_CHECKING:
    from metronome_opt.simulation.policies.baselines import Policy

_ROUTING = "routing"

# From the practice of clusters to a lower bound: description, module and class.
_BUILTIN = {
    "default": ("spread by free GPUs, no network, no shifting", "baselines", "SpreadPolicy"),
    "nearest": (
        "fewest racks, then nodes, as topology-aware schedulers place",
        "baselines",
        "Nearest",
    ),
    "exclusive": ("bandwidth reserved at peak, jobs wait for it", "baselines", "Exclusive"),
    "cassini": ("most compatible placement, time shifts of CASSINI", "baselines", "Cassini"),
    "mltcp": ("nearest; hosts send faster the more of an iteration is sent", "transport", "Mltcp"),
    "crux": ("nearest; links serve jobs of higher GPU intensity first", "transport", "Crux"),
    "metronome": ("placements and starts by what they cost all jobs", "metronome", "Metronome"),
    "ideal": ("as default, on a network without contention", "baselines", "Ideal"),
}
BUILTIN_POLICIES = tuple(_BUILTIN)
"""Names of the policies of this package."""

_PLUGINS = plugins("metronome_opt.policies")

POLICIES = {
    **{name: f"plug-in, {point.value}" for name, point in _PLUGINS.items()},
    **{name: about for name, (about, *_) in _BUILTIN.items()},
}
"""Descriptions of all policies by name."""


def check_policy(text: str) -> None:
    """Raise `InputError` for a policy that is not known, or an option that it does not have."""
    name = text.partition(":")[0]
    if name not in POLICIES:
        raise InputError(f"{quote(name)} is not known; choose from {', '.join(POLICIES)}")
    if name != text:  # a name alone needs no import
        _read_options(text, _load(name))


def find_policy(text: str, seed: int) -> Policy:
    """Return a policy by name and options; an `InputError` lists those that are known."""
    with error_context("policy"):
        check_policy(text)
    make = _load(text.partition(":")[0])
    options = _read_options(text, make)
    routing = options.pop(_ROUTING, None)
    with guarded(f"policy {text}", foreign=is_plugin(text)):
        policy: Policy = make(seed, **options)
    policy.routing = routing or policy.routing
    return policy


def is_plugin(text: str) -> bool:
    """Return whether a policy is one of another package."""
    return text.partition(":")[0] not in _BUILTIN


def _load(name: str) -> Callable[..., Policy]:
    """Import the class of a known policy."""
    if name in _BUILTIN:
        _, module, made = _BUILTIN[name]
        own: Callable[..., Policy] = getattr(import_module(f"{__name__}.{module}"), made)
        return own
    make: Callable[..., Policy] = load_plugin(_PLUGINS[name], "policy")
    if not callable(make):
        raise InputError(
            f"policy: {quote(name)}: {_PLUGINS[name].value} must be a subclass of Policy; mend or "
            "remove the package that adds it"
        )
    return make


def _read_options(text: str, make: Callable[..., Policy]) -> dict[str, Any]:
    """Return the options that the text states for a policy."""
    name, *stated = text.split(":")
    parameters = signature(make, eval_str=True).parameters.values() if stated else ()
    known = {its.name: its.annotation for its in parameters if its.kind is its.KEYWORD_ONLY}
    known[_ROUTING] = Routing
    options = {}
    for setting in stated:
        option, _, value = setting.partition("=")
        if option not in known:
            raise InputError(
                f"{quote(text)}: {quote(option)} is no option of {name}; "
                f"choose from {', '.join(known)}"
            )
        try:
            options[option] = TypeAdapter(known[option]).validate_python(value)
        except ValidationError as error:
            fault = explain(error).removeprefix("document: ")
            raise InputError(f"{quote(text)}: {option}: {fault}") from None
    return options
