"""An instance in blocks, each with a search of its own; the schedules and bounds add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from metronome_opt.instance import Instance
from metronome_opt.kernels.jobs import contention, demand_of
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.presolve import Split, coarsen, simplify_links, split
from metronome_opt.presolve.reduction import Offsets, Reduction
from metronome_opt.result import Block
from metronome_opt.solvers import greedy, local
from metronome_opt.solvers.population import Population
from metronome_opt.solvers.search import Search


class Blocks:
    """The blocks of what presolve makes of an instance.

    Parameters
    ----------
    whole
        Schedules and bounds of the blocks are put together and reported to it. What schedule it has
        is what the blocks start from.

    Attributes
    ----------
    parts
        A search for each block, below that of the whole.
    """

    def __init__(self, whole: Search) -> None:
        self._whole = whole
        self._fewer_links: Reduction = simplify_links(whole.instance)
        self._split: Split = split(self._fewer_links.instance)
        self._coarse: list[Reduction] = [coarsen(block) for block in self._split.blocks]
        self.parts: Sequence[Search] = [whole.below(block.instance) for block in self._coarse]
        offsets = whole.named() or dict(whole.instance.unshifted)
        self._at_first = [_at(block, offsets) for block in self._split.blocks]

    @property
    def open(self) -> list[Search]:
        """The blocks that are not proved, those with few jobs first."""
        return sorted(
            (part for part in self.parts if not part.proved),
            key=lambda part: len(part.instance.jobs),
        )

    def start(self, part: Search, *, share: float) -> Population | None:
        """Find a first schedule of a block, within a share of the time that all of them have.

        Returns the local search that found it, to go on with: it ends with a whole generation.
        """
        greedy.run(part)
        population = local.begin(part, share=share / len(self.parts))
        while population is not None and not population.idle and population.fits:
            population.play()
        return population

    def join(self) -> None:
        """Put the blocks' schedules and bounds together.

        Of a block without a better schedule, that which the whole had at first is taken.
        """
        whole = self._whole
        found: list[Offsets] = []
        for coarse, part, (offsets, value) in zip(
            self._coarse, self.parts, self._at_first, strict=True
        ):
            named = part.named()
            better = part.incumbent is not None and part.incumbent < value
            found.append(coarse.restore(named) if better and named is not None else offsets)
        joined = self._fewer_links.restore(self._split.join(found))
        whole.offer([joined[job.name] for job in whole.instance.jobs], "blocks")
        bound = sum((part.bound or Fraction(0) for part in self.parts), Fraction(0))
        whole.raise_bound(bound, "blocks")
        whole.blocks = [_report(part) for part in self.parts]

    def say(self) -> None:
        """Note what was proved by what, and what the parts have to say."""
        blocks = self._whole.blocks
        proved = Counter(block.proved_by for block in blocks if block.proved_by is not None)
        ways = [f"{count} by {way}" for way, count in sorted(proved.items())]
        left = [block for block in blocks if block.proved_by is None]
        text = f"{len(blocks)} block{'s' if len(blocks) != 1 else ''}"
        if ways:
            text += f", proved: {', '.join(ways)}"
        if left:
            sizes = ", ".join(str(len(block.jobs)) for block in left[-5:])
            more = "..., " if len(left) > 5 else ""
            text += f", not proved: {len(left)}, of {more}{sizes} jobs"
        notes = self._whole.notes
        if blocks:
            notes.append(text)
        told = dict.fromkeys(note for part in self.parts for note in part.notes)
        notes += [note for note in told if note not in notes]


def _at(block: Instance, offsets: Offsets) -> tuple[Offsets, Fraction]:
    """Return the offsets of the jobs of a block, and the contention of the block with them."""
    compiled = compile_instance(block)
    demand = demand_of(compiled, [offsets[job.name] for job in block.jobs])
    return {job.name: offsets[job.name] for job in block.jobs}, contention(compiled, demand)


def _report(part: Search) -> Block:
    return Block(
        jobs=tuple(job.name for job in part.instance.jobs),
        links=tuple(link.name for link in part.instance.links),
        value=part.incumbent,
        bound=part.bound,
        found_by=part.found_by,
        proved_by=part.bound_by if part.proved else None,
    )
