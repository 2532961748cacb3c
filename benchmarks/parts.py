"""What each part of the proofs of `auto` is worth: the solver with one part taken away.

They are solvers of a benchmark: ``--solvers auto,benchmarks/parts.py:without_grid``. A case has a
process of its own, so a part is replaced in the modules that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from fractions import Fraction
from unittest.mock import patch

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import auto
from metronome_opt.solvers.cost_shifting import CostShifting
from metronome_opt.solvers.elimination import Elimination
from metronome_opt.solvers.link_groups import LinkGroups
from metronome_opt.solvers.presolve.blocks import Split, restrict
from metronome_opt.solvers.registry import SolverFunction
from metronome_opt.solvers.run import SolverRun


def _whole(instance: Instance) -> Split:
    """Return the instance as one block."""
    links = {link for link, users in instance.jobs_on.items() if users}
    return Split(instance, (restrict(instance, links),) if links else ())


def _exhaust(prover: LinkGroups | CostShifting | Elimination) -> None:
    prover.exhausted = True


_SOLVERS = "metronome_opt.solvers"
_PARTS: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "grid": {f"{_SOLVERS}.blocks.coarsen": lambda block: (block, dict)},
    "contacts": {
        f"{_SOLVERS}.kernels.contacts._differences": lambda *edges_and_gcd: list(
            range(edges_and_gcd[2])
        )
    },
    "orbits": {f"{_SOLVERS}.cost_network.tables.orbits": lambda *_: ()},
    "blocks": {f"{_SOLVERS}.blocks.split": _whole},
    "loads": {
        f"{_SOLVERS}.run.SolverRun.raise_to_loads": lambda _: None,
        f"{_SOLVERS}.link_groups.load_bound": lambda *_: Fraction(0),
    },
    "link_groups": {f"{_SOLVERS}.link_groups.LinkGroups.step": _exhaust},
    "local_search": {f"{_SOLVERS}.local.begin": lambda *_, **__: None},
    "cost_shifting": {f"{_SOLVERS}.cost_shifting.CostShifting.step": _exhaust},
    "elimination": {f"{_SOLVERS}.elimination.Elimination.step": _exhaust},
}
"""By part, what stands in the place of what in a run without it."""


def _without(part: str) -> SolverFunction:
    def solve(run: SolverRun) -> None:
        with ExitStack() as replaced:
            for name, replacement in _PARTS[part].items():
                replaced.enter_context(patch(name, replacement))
            auto.run(run)

    return solve


ALL: Mapping[str, SolverFunction] = {part: _without(part) for part in _PARTS}
globals().update({f"without_{part}": solver for part, solver in ALL.items()})
