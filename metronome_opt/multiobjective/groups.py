"""An instance in groups of jobs that can be decided apart, and the way back.

Blocks where rotating a group changes nothing that is asked for; components where it does; the whole
where something is limited that adds up over all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.costs import Costs, Offsets
from metronome_opt.multiobjective.objectives import can_turn
from metronome_opt.presolve import simplify_links, split
from metronome_opt.presolve.components import components
from metronome_opt.solvers.search import Search


@dataclass(frozen=True)
class Grouping:
    """The groups of an instance.

    Attributes
    ----------
    groups
        Their links are disjoint.
    join
        Puts offsets by job name together, one mapping per group.
    """

    groups: tuple[Instance, ...]
    join: Callable[[Sequence[dict[str, int]]], dict[str, int]]

    def costs(
        self,
        whole: Search,
        base: Fraction,
        names: Sequence[str],
        mixture: Mapping[str, Fraction] | None = None,
    ) -> list[Costs]:
        """Return the costs of each group, its search below that of the whole.

        Parameters
        ----------
        base
            The traffic that latency is a share of, Mbit/s.
        names
            The objectives that matter.
        mixture
            See `Costs`.
        """
        return [Costs(whole.below(group), base, names, mixture) for group in self.groups]


def group(instance: Instance, names: Sequence[str], *, apart: bool = True) -> Grouping:
    """Return the smallest groups that can be decided apart.

    Parameters
    ----------
    names
        The objectives that matter.
    apart
        Whether groups may be decided apart at all.
    """
    fewer = simplify_links(instance).instance
    if not apart:
        return Grouping((fewer,), lambda parts: dict(parts[0]))
    if can_turn(names):
        cut = split(fewer)
        return Grouping(cut.blocks, cut.join)
    return Grouping(
        components(fewer),
        lambda parts: {name: offset for part in parts for name, offset in part.items()},
    )


def named(costs: Costs, offsets: Offsets) -> dict[str, int]:
    """Return offsets by the names of a group's jobs."""
    return dict(zip((job.name for job in costs.group.jobs), offsets, strict=True))


def traffic(instance: Instance) -> Fraction:
    """Return what all jobs put on all links on average if none is stretched, Mbit/s."""
    return sum(
        (
            Fraction(flows * job.volume, job.period)
            for job in instance.jobs
            for flows in job.links.values()
        ),
        Fraction(0),
    )
