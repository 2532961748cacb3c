"""Policies: placement, admission and slots of jobs.

A policy is a subclass of `baselines.SpreadPolicy`, and one `PolicyEntry`: in the table below, or in
another package, which names it in an entry point of the group ``metronome_opt.policies``. Command
line, studies, campaigns and figures know all policies by name.

Keyword-only parameters of the factory are options, which follow the name:
``metronome:slots=no:waits=no``. All have one more, ``routing``, as of a `Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import explain
from metronome_opt.plugins import guarded, load_plugin, plugins
from metronome_opt.scenario.cluster import Routing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from metronome_opt.simulation.policies.baselines import SpreadPolicy

_ROUTING = "routing"
_ENTRY_POINTS = "metronome_opt.policies"


@dataclass(frozen=True)
class PolicyEntry:
    """Entry in the policy registry.

    Attributes
    ----------
    about
        Description in a few words.
    make
        Factory that takes a seed, or its place as ``module:name``.
    """

    about: str
    make: str | Callable[..., SpreadPolicy]


if TYPE_CHECKING:
    POLICIES: Mapping[str, str]

# From the practice of clusters to a lower bound.
_OURS = {
    "default": ("spread by free GPUs, no network, no shifting", "baselines:SpreadPolicy"),
    "nearest": (
        "fewest racks, then nodes, as topology-aware schedulers place",
        "baselines:Nearest",
    ),
    "balanced": ("links overbooked least at peak, then nearest", "baselines:Balanced"),
    "exclusive": ("bandwidth reserved at peak, jobs wait for it", "baselines:Exclusive"),
    "cassini": ("most compatible placement, time shifts of CASSINI", "baselines:Cassini"),
    "mltcp": ("nearest; hosts send faster the more of an iteration is sent", "transport:Mltcp"),
    "crux": ("nearest; links serve jobs of higher GPU intensity first", "transport:Crux"),
    "metronome": ("places and starts by what they cost all jobs", "metronome:Metronome"),
    "ideal": ("a network without contention: the bound", "baselines:Ideal"),
}
OURS = {name: PolicyEntry(about, f"{__name__}.{at}") for name, (about, at) in _OURS.items()}


@cache
def _registered() -> dict[str, PolicyEntry]:
    """Return all policies by name; those of other packages do not replace ours."""
    return {
        **{name: _added(point) for name, point in plugins(_ENTRY_POINTS).items()},
        **OURS,
    }


def _added(point: EntryPoint) -> PolicyEntry:
    """Return the policy of another package; a broken one is refused when it is used."""
    try:
        registration = load_plugin(point, "policy")
        if not isinstance(registration, PolicyEntry):
            raise InputError(
                f"policy: {quote(point.name)}: {point.value} must be a Registration; mend or "
                "remove the package that adds it"
            )
    except InputError as error:
        return PolicyEntry(f"cannot be used ({error})", partial(_refuse, error))
    return registration


def _refuse(error: InputError, *_: object, **__: object) -> NoReturn:
    raise error


def __getattr__(name: str) -> Any:
    """Return `POLICIES`, what policies do by their names.

    It is made on first use, because policies of other packages import this module.
    """
    if name != "POLICIES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return {name: policy.about for name, policy in _registered().items()}


def check_policy(text: str) -> None:
    """Raise `InputError` for a policy that is not known, or an option that it does not have."""
    if ":" in text:
        _factory(text)
    else:
        _registration(text)  # which imports no policy


def find_policy(text: str, seed: int) -> SpreadPolicy:
    """Return a policy by name and options; an `InputError` lists those that are known."""
    with error_context("policy"):
        make, options = _factory(text)
    routing = options.pop(_ROUTING, None)
    with guarded(f"policy {text}", foreign=is_plugin(text)):
        policy: SpreadPolicy = make(seed, **options)
    policy.routing = routing or policy.routing
    return policy


def is_plugin(text: str) -> bool:
    """Return whether a policy is one of another package."""
    return text.partition(":")[0] not in OURS


def _registration(name: str) -> PolicyEntry:
    if name not in _registered():
        raise InputError(f"{quote(name)} is not known; choose from {', '.join(_registered())}")
    return _registered()[name]


def _factory(text: str) -> tuple[Callable[..., SpreadPolicy], dict[str, Any]]:
    """Return the factory of a policy, and the options that the text states."""
    name, *stated = text.split(":")
    make: Any = _registration(name).make
    if isinstance(make, str):
        module, _, attribute = make.partition(":")
        make = getattr(import_module(module), attribute)
    parameters = signature(make, eval_str=True).parameters.values() if stated else ()
    known = {each.name: each.annotation for each in parameters if each.kind is each.KEYWORD_ONLY}
    known[_ROUTING] = Routing
    options = {}
    for each in stated:
        option, _, value = each.partition("=")
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
    return make, options
