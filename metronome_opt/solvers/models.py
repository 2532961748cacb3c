"""The models: the strong form, block by block, and the textbook one, in CP-SAT, HiGHS and CBC.

In a block, links' own optima, tables and elimination cut the offsets down (see `network`), then the
back end looks for a schedule that is better than the incumbent or proves that there is none. Of
CP-SAT's workers, `max_lp` proved what was proved at all on blocks of a dozen jobs, and
`lb_tree_search` had the best bounds on others. Integer offsets with order literals in place of one
Boolean per offset, and the differences of two jobs' offsets as variables, gave no better bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metronome_opt.kernels.tables import Compiled
from metronome_opt.result import Stop
from metronome_opt.solvers import greedy
from metronome_opt.solvers.backends import (
    import_cp_model,
    import_pulp,
    solve_cbc,
    solve_cpsat,
    solve_highs,
)
from metronome_opt.solvers.blocks import solve_in_blocks
from metronome_opt.solvers.network import Eliminated, Network, build, decide, eliminate, turned
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.strong import StrongForm
from metronome_opt.solvers.time_indexed import TimeIndexed

_WORKERS = ("max_lp", "lb_tree_search", "core", "pseudo_costs")
_SMALL = 2000  # variables of a model that is not worth a process of its own
_PREPARING = 0.25  # of the time of a block, at most, for cutting offsets down
_MOST_CELLS = 2**22  # of a table, to cut offsets down with
_MOST_LEFT = 2**12  # of a table that eliminating a job leaves: a model states these cell by cell


def run_cpsat(search: Search) -> None:
    """Solve block by block with CP-SAT."""
    import_cp_model()  # say now if it is missing, not when the first block is hard

    def prove(part: Search, form: StrongForm) -> None:
        program = strong_cpsat(form, turned(part))
        search.built()
        large = len(program.model.proto.variables) > _SMALL
        solve_cpsat(part, program, _WORKERS, isolated=large)

    _run_strong(search, prove)


def run_highs(search: Search) -> None:
    """Solve block by block with HiGHS."""
    _run_milp(search, solve_highs)


def run_cbc(search: Search) -> None:
    """Solve block by block with CBC."""
    _run_milp(search, solve_cbc)


def run_cpsat_textbook(search: Search) -> None:
    """Build the textbook model and solve it with CP-SAT."""
    greedy.unshifted(search)
    if search.stopped:
        return
    form = TimeIndexed(search.compiled)
    program = textbook_cpsat(form)
    complete = form.state(program, search)
    search.built()
    if complete and not search.stopped:
        solve_cpsat(search, program)


def run_milp_textbook(search: Search) -> None:
    """Build the textbook model and solve it with HiGHS."""
    greedy.unshifted(search)
    if search.stopped:
        return
    form = TimeIndexed(search.compiled)
    program = MilpProgram(form.decode, form.scale)
    complete = form.state(program, search)
    # Writing the model for the back end takes about as long as making it did.
    enough = search.remaining is None or search.remaining >= search.elapsed
    if complete and enough and not search.stopped:
        solve_highs(search, program)
    else:
        search.budget.end(Stop.TIME_LIMIT)
    search.built()


def textbook_cpsat(form: TimeIndexed) -> CpsatProgram:
    """Return an empty CP-SAT program for a textbook form."""
    return CpsatProgram(form.decode, form.scale, title=form.instance.name)


def textbook(
    compiled: Compiled, kind: type[CpsatProgram | MilpProgram]
) -> CpsatProgram | MilpProgram:
    """Return the textbook model of an instance."""
    form = TimeIndexed(compiled)
    program = textbook_cpsat(form) if kind is CpsatProgram else MilpProgram(form.decode, form.scale)
    form.state(program)
    return program


def strong_cpsat(form: StrongForm, hints: Sequence[int]) -> CpsatProgram:
    """Return the CP-SAT program of a form; a schedule to start from is a hint."""
    network = form.network
    program = CpsatProgram(
        form.decode, network.scale, network.floor, network.limit + 1, hints=hints
    )
    form.state(program)
    return program


def strong_milp(form: StrongForm) -> MilpProgram:
    """Return the MILP of a form."""
    network = form.network
    program = MilpProgram(form.decode, network.scale, network.floor, network.limit + 1)
    form.state(program)
    return program


def _run_milp(search: Search, back_end: Callable[[Search, MilpProgram], None]) -> None:
    import_pulp()  # say now if it is missing, not when the first block is hard

    def prove(part: Search, form: StrongForm) -> None:
        program = strong_milp(form)
        search.built()
        back_end(part, program)

    _run_strong(search, prove)


def _run_strong(search: Search, prove: Callable[[Search, StrongForm], None]) -> None:
    def prove_block(part: Search) -> None:
        network, gone = _prepare(part)
        if not part.stopped:
            form = StrongForm(network, gone, part)
            if form.complete:
                prove(part, form)

    solve_in_blocks(search, prove_block)
    search.built()  # if there was nothing left to model


def _prepare(part: Search) -> tuple[Network, list[Eliminated]]:
    """Return what is left to decide of a block with an incumbent, within a share of its time.

    Links' own optima, tables and elimination may prove the incumbent, or find the optimum; the
    search then knows.
    """
    share = part.below(part.instance)
    share.limit_to(part.remaining, round(1 / _PREPARING))
    if part.best is not None:
        share.offer(part.best, part.found_by)
    network, gone = eliminate(share, build(share), _MOST_CELLS, _MOST_LEFT)
    if network.solved:
        left = [int(domain[0]) for domain in network.domains]
        part.offer(decide(gone, left), "elimination")
    part.raise_bound(network.bound, share.bound_by)
    return network, gone
