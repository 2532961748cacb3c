"""toulbar2 on the cost network of a block: an independent proof, where tables fit.

The network is cut down as for `cpsat`, with larger tables. A link whose table does not fit counts
with its lower bound: what toulbar2 then finds is a bound, and a schedule that need not be the best.

References: Cooper, de Givry, Sanchez, Schiex, Zytnicki and Werner, "Soft arc consistency
revisited", Artificial Intelligence 174 (2010), 449-478; Katsirelos, Allouche, de Givry and others,
"Anytime hybrid best-first search with tree decomposition for weighted CSP", CP 2015.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from metronome_opt.solvers.backends import solve_toulbar2
from metronome_opt.solvers.blocks import solve_in_blocks
from metronome_opt.solvers.cost_network.cfn import cfn_text, entries
from metronome_opt.solvers.cost_network.eliminate import Eliminated, decide
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.imports import find_toulbar2
from metronome_opt.solvers.run import SolverRun
from metronome_opt.solvers.strong_form import prepare

_MAX_CELLS = 2**25  # of a table, to cut offsets down with
_SHARE = 2  # of as many parts of the time of a block one, at most, goes into tables
_MAX_ENTRIES = 2**22  # numbers of a table that is handed over


def run(search: SolverRun) -> None:
    """Solve block by block."""
    find_toulbar2()
    solve_in_blocks(search, _prove)
    search.built()  # if there was nothing left to model


def _prove(part: SolverRun) -> None:
    network, gone = prepare(part, _MAX_CELLS, _SHARE)
    if part.stopped:
        return
    program = CfnProgram(network, gone)
    if program.dropped:
        sizes = ", ".join(f"{name} of {cells:.1e} cells" for name, cells in program.dropped)
        part.notes.append(
            f"toulbar2 knows no more than a lower bound of links whose tables do not fit: {sizes}"
        )
    solve_toulbar2(part, program)


class CfnProgram:
    """A network for toulbar2; `dropped` has the names and cells of the tables that do not fit."""

    base = 0  # the floor is in the file

    def __init__(self, network: CostNetwork, gone: Sequence[Eliminated]) -> None:
        costs = []
        self.dropped: list[tuple[str, int]] = []
        for cost in network.costs:
            if cost.excess is None or entries(network, cost) > _MAX_ENTRIES:
                name = "a job" if cost.link is None else network.compiled.links[cost.link].name
                self.dropped.append((name, network.cells(cost)))
                cost = replace(cost, excess=None, singles=())
            costs.append(cost)
        self.scale: Fraction = network.scale
        self.cutoff = network.limit + 1
        self._network = replace(network, costs=tuple(costs))
        self._gone = gone

    def offsets(self, values: Mapping[str, float]) -> Sequence[int]:
        """Return the schedule of the positions in the domains, by job."""
        domains = enumerate(self._network.domains)
        return decide(self._gone, [int(domain[int(values[str(job)])]) for job, domain in domains])

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(cfn_text(self._network), encoding="utf-8")
