"""The way of the strong models: block by block, offsets cut down first, then proved."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from metronome_opt.errors import SolverError, reason
from metronome_opt.solvers import greedy
from metronome_opt.solvers.blocks import Blocks
from metronome_opt.solvers.network import Eliminated, Network, build, decide, eliminate
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_LOCAL_SHARE = 0.1  # of the time, at most, for local search
_PREPARED_IN = 4  # parts of the time of a block, one of which cutting offsets down may take
_MOST_CELLS = 2**22  # of a table, to cut offsets down with
_MOST_LEFT = 2**12  # of a table that eliminating a job leaves: a model states these cell by cell
_LOOK_S = 0.2  # seconds between two looks at what a block has come to


def solve_in_parts(search: Search, prove: Callable[[Search], None]) -> None:
    """Find a schedule, then have every block proved, small ones first.

    Parameters
    ----------
    prove
        Takes the search of a block, which has an incumbent.

    Raises
    ------
    SolverError, ModelTooLargeError
        What `prove` raises, if there is one block only; of several, it is noted.
    """
    greedy.run(search)
    if not search.stopped:
        blocks = Blocks(search)
        for part in blocks.parts:
            blocks.start(part, share=_LOCAL_SHARE)
        blocks.join()
        _prove_all(search, blocks, prove)
        blocks.say()


def _prove_all(search: Search, blocks: Blocks, prove: Callable[[Search], None]) -> None:
    todo = blocks.open
    with ThreadPoolExecutor(1) as pool:
        for number, part in enumerate(todo):
            if search.stopped:
                break
            part.limit_to(search.remaining, len(todo) - number)
            try:
                _watch(pool.submit(prove, part), blocks)
            except (SolverError, ModelTooLargeError, MemoryError) as error:
                if len(blocks.parts) == 1:
                    raise
                names = ", ".join(job.name for job in part.instance.jobs)
                search.notes.append(f"block of {names}: {reason(error)}")
            except BaseException:
                search.finish()  # the pool waits for what is running
                raise


def _watch(future: Future[None], blocks: Blocks) -> None:
    """Put blocks together while one of them is being proved."""
    pending = {future}
    while pending:
        _, pending = wait(pending, timeout=_LOOK_S)
        blocks.join()
    future.result()


def prepare(part: Search) -> tuple[Network, list[Eliminated]]:
    """Return what is left to decide of a block with an incumbent, within a share of its time.

    Links' own optima, tables and elimination may prove the incumbent, or find the optimum; the
    search then knows.
    """
    share = part.below(part.instance)
    share.limit_to(part.remaining, _PREPARED_IN)
    if part.best is not None:
        share.offer(part.best, part.found_by)
    network, gone = eliminate(share, build(share), _MOST_CELLS, _MOST_LEFT)
    if network.solved:
        left = [int(domain[0]) for domain in network.domains]
        part.offer(decide(gone, left), "elimination")
    part.raise_bound(network.bound, share.bound_by)
    return network, gone
