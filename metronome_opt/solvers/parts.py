"""The way of the strong models: reduce the instance, cut it into blocks, prove one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from metronome_opt.errors import SolverError
from metronome_opt.presolve import coarsen, simplify_links, split
from metronome_opt.result import Event
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.network import Eliminated, Network, build, decide, eliminate
from metronome_opt.solvers.search import Search
from metronome_opt.solvers.time_indexed import ModelTooLargeError

_LOCAL_SHARE = 0.1  # of the time, at most, for local search
_PREPARED_IN = 4  # the share of the time that cutting offsets down may take, as 1 / share
_MOST_CELLS = 2**22  # of a table, to cut offsets down with
_MOST_LEFT = 2**12  # of a table that eliminating a job leaves: a model states these cell by cell


def solve_in_parts(
    search: Search, prove: Callable[[Search], None], start: Sequence[int] | None = None
) -> None:
    """Offer a schedule, then have every block proved, small ones first.

    Parameters
    ----------
    prove
        Takes the search of a block, which has an incumbent.
    start
        A complete schedule to start from; without one, greedy and local search look for it.

    Raises
    ------
    SolverError, ModelTooLargeError
        What `prove` raises, if there is one block only; else it is noted.
    """
    if start is None:
        greedy.run(search)
    else:
        search.offer(start, "start")
    if not search.stopped:
        Parts(search, start).solve(prove)
    search.built()


class Parts:
    """The blocks of an instance, each with a search below that of the whole."""

    def __init__(self, search: Search, start: Sequence[int] | None) -> None:
        self._whole = search
        self._fewer_links = simplify_links(search.instance)
        self._coarse = coarsen(self._fewer_links.instance)
        self._split = split(self._coarse.instance)
        self._joining = False
        self._parts = [
            Search(
                block,
                time_limit=search.remaining,
                seed=search.seed,
                workers=search.workers,
                callback=self._on_event,
                parent=search,
            )
            for block in self._split.blocks
        ]
        self._start = None
        if start is not None and self._coarse.instance.slot_ms == search.instance.slot_ms:
            jobs = search.instance.jobs
            self._start = {job.name: o for job, o in zip(jobs, start, strict=True)}

    def solve(self, prove: Callable[[Search], None]) -> None:
        """Find schedules for all blocks, then prove them."""
        for part in self._parts:
            if self._start is not None:
                part.offer([self._start[job.name] for job in part.instance.jobs], "start")
            else:
                greedy.run(part)
                local.improve(part, share=_LOCAL_SHARE / len(self._parts))
        self._join()
        self._joining = True
        todo = sorted(
            (part for part in self._parts if not part.proved),
            key=lambda part: len(part.instance.jobs),
        )
        for number, part in enumerate(todo):
            if self._whole.stopped:
                break
            part.limit_to(self._whole.remaining, len(todo) - number)
            self._prove(part, prove)
        self._join()
        self._say()

    def _prove(self, part: Search, prove: Callable[[Search], None]) -> None:
        try:
            prove(part)
        except (SolverError, ModelTooLargeError) as error:
            if len(self._parts) == 1:
                raise
            jobs = ", ".join(job.name for job in part.instance.jobs)
            self._whole.notes.append(f"block of {jobs}: {error}")
        self._whole.notes += [note for note in part.notes if note not in self._whole.notes]

    def _on_event(self, _: Event) -> None:
        if self._joining:
            self._join()

    def _join(self) -> None:
        """Put the blocks' schedules and bounds together."""
        found = [part.named() for part in self._parts]
        if all(offsets is not None for offsets in found):
            offsets = self._split.join([each for each in found if each is not None])
            offsets = self._fewer_links.restore(self._coarse.restore(offsets))
            jobs = self._whole.instance.jobs
            self._whole.offer([offsets[job.name] for job in jobs], "blocks")
        bound = sum((part.bound or Fraction(0) for part in self._parts), Fraction(0))
        self._whole.raise_bound(bound, "blocks")

    def _say(self) -> None:
        proved = sum(part.proved for part in self._parts)
        if len(self._parts) > 1:
            self._whole.notes.append(f"{proved} of {len(self._parts)} blocks proved optimal")


def prepare(part: Search) -> tuple[Network, list[Eliminated]]:
    """Return what is left to decide of a block with an incumbent, within a share of its time.

    Links' own optima, tables, and eliminated jobs may prove the incumbent, or find the optimum;
    the search then knows.
    """
    share = part.below(part.instance)
    share.limit_to(part.remaining, _PREPARED_IN)
    if part.best is not None:
        share.offer(part.best, part.found_by)
    network = build(share)
    part.raise_bound(network.bound, "links")
    network, gone = eliminate(share, network, _MOST_CELLS, _MOST_LEFT)
    if network.solved:
        left = [int(domain[0]) for domain in network.domains]
        part.offer(decide(gone, left), "elimination")
    part.raise_bound(network.bound, "elimination")
    return network, gone
