"""Decomposition into blocks with a run each, whose schedules and bounds add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from fractions import Fraction

from metronome_opt.errors import SolverError, describe_error
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError, compile_instance
from metronome_opt.solvers.kernels.jobs import contention, state_of
from metronome_opt.solvers.local import Population
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.solvers.presolve.reductions import Offsets, coarsen, simplify_links
from metronome_opt.solvers.run import SolverRun

_OFTEN = 32  # times that all of many blocks are put together while each is worked on once
_POLL_S = 0.2  # between two joins of the blocks' schedules and bounds


class BlockRun:
    """A block in a run; `improved` counts its generations of local search."""

    def __init__(self, search: SolverRun) -> None:
        self.search = search
        search.raise_to_loads()
        self.improved = 0
        self._population: Population | None = None
        self._begun = False

    def start(self, share: float) -> None:
        """Find a first schedule, within a share of the time; local search may go on from there."""
        greedy.run(self.search)
        population = self._begin(share)
        while population is not None and not population.stalled and population.fits:
            population.step()

    @property
    def population(self) -> Population | None:
        """The local search, None if there is nothing to search; begun now if it was not before."""
        return self._population if self._begun else self._begin(1.0)

    @property
    def promising(self) -> Population | None:
        """The local search, if it is promising beside proofs."""
        population = self.population
        stalled = population is None or population.stalled >= local.MAX_STALLED
        return None if stalled else population

    def _begin(self, share: float) -> Population | None:
        self._begun = True
        self._population = local.begin(self.search, share=share)
        return self._population


class Blocks:
    """The blocks of what presolve makes of an instance, with a run for each.

    Their schedules and bounds are put together and reported to the run of the whole, whose schedule
    they start from.
    """

    def __init__(self, whole: SolverRun) -> None:
        self._whole = whole
        self._split = split(simplify_links(whole.instance))
        coarse = [coarsen(block) for block in self._split.blocks]
        self._restore = [restore for _, restore in coarse]
        self.runs = [BlockRun(whole.subproblem(block)) for block, _ in coarse]
        offsets = whole.offsets_by_job() or dict(whole.instance.unshifted)
        self._steps = 0
        self._at_first = [_at(block, offsets) for block in self._split.blocks]

    @property
    def open(self) -> list[BlockRun]:
        """The blocks that are not proved, those with few jobs first."""
        return sorted(
            (run for run in self.runs if not run.search.proved),
            key=lambda run: len(run.search.instance.jobs),
        )

    def start(self, run: BlockRun) -> None:
        """Find a first schedule of a block, within a share of the time that all of them have."""
        run.start(local.SHARE / len(self.runs))

    def note_progress(self) -> None:
        """Put blocks together now and then: each time if they are few, else less often."""
        self._steps += 1
        if self._steps % (1 + len(self.runs) // _OFTEN) == 0:
            self.join()

    def join(self) -> None:
        """Put the blocks' schedules and bounds together.

        A block without a better schedule keeps its part of the first schedule of the whole.
        """
        whole = self._whole
        chosen: list[Offsets] = []
        parts = [run.search for run in self.runs]
        for restore, part, (offsets, value) in zip(
            self._restore, parts, self._at_first, strict=True
        ):
            named = part.offsets_by_job()
            better = part.incumbent is not None and part.incumbent < value
            chosen.append(restore(named) if better and named is not None else offsets)
        joined = self._split.join(chosen)
        whole.offer([joined[job.name] for job in whole.instance.jobs], "blocks")
        whole.raise_bound(sum((part.bound or Fraction(0) for part in parts), Fraction(0)), "blocks")

    def collect_notes(self) -> None:
        """Note what was proved by what, and what the searches of the blocks have noted."""
        blocks = [run.search for run in self.runs]
        proved = Counter(block.bound_by for block in blocks if block.proved)
        ways = [f"{count} by {way}" for way, count in sorted(proved.items())]
        left = [block for block in blocks if not block.proved]
        parts = [f"proved optimal: {', '.join(ways)}"] if ways else []
        if left:
            sizes = ", ".join(str(len(block.instance.jobs)) for block in left[-5:])
            more = "..., " if len(left) > 5 else ""
            parts.append(f"not proved: {len(left)}, of {more}{sizes} jobs")
        groups = f"jobs form {len(blocks)} groups without common links"
        text = "; ".join([groups if len(blocks) > 1 else "all jobs form one group", *parts])
        notes = self._whole.notes
        if blocks:
            notes.append(text)
        noted = dict.fromkeys(note for run in self.runs for note in run.search.notes)
        notes += [note for note in noted if note not in notes]


def solve_in_blocks(search: SolverRun, prove: Callable[[SolverRun], None]) -> None:
    """Find a schedule, then have every block proved, small ones first.

    What `prove` raises is raised if there is one block only; of several, it is noted.
    """
    greedy.run(search)
    if search.stopped:
        return
    blocks = Blocks(search)
    for run in blocks.runs:
        blocks.start(run)
    blocks.join()
    todo = [run.search for run in blocks.open]
    with ThreadPoolExecutor(1) as pool:
        for number, part in enumerate(todo):
            if search.stopped:
                break
            part.limit_to(search.remaining, len(todo) - number)
            try:
                join_until_done(blocks, {pool.submit(prove, part)})
            except (SolverError, TooLargeError, MemoryError) as error:
                if len(blocks.runs) == 1:
                    raise
                names = ", ".join(job.name for job in part.instance.jobs)
                search.notes.append(f"block of {names}: {describe_error(error)}")
            except BaseException:
                search.end(StopReason.FINISHED)  # the pool waits for what is running
                raise
    blocks.collect_notes()


def join_until_done(blocks: Blocks, pending: set[Future[None]]) -> None:
    """Put blocks together while they are worked on; raise what the work raises."""
    while pending:
        done, pending = wait(pending, timeout=_POLL_S)
        for future in done:
            future.result()
        blocks.join()


def _at(block: Instance, offsets: Offsets) -> tuple[Offsets, Fraction]:
    """Return the offsets of the jobs of a block, and the contention of the block with them."""
    compiled = compile_instance(block)
    state = state_of(compiled, [offsets[job.name] for job in block.jobs])
    return {job.name: offsets[job.name] for job in block.jobs}, contention(compiled, state)
