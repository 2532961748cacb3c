"""Objectives of a schedule and their parts, by job and by link, exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class LinkReport:
    """Contention of a link, and its parts.

    Attributes
    ----------
    hyperperiod
        Slots after which the link repeats itself.
    contention
        Mean weighted unserved bandwidth, weight * Mbit/s.
    unserved
        Mean unserved bandwidth without priorities, Mbit/s.
    score
        CASSINI's compatibility, ``1 - unserved / capacity``.
    jobs
        Number of jobs on the link.
    cushion
        Largest number of slots by which all bursts can grow before the link is overloaded; None
        if it is overloaded already or never can be.
    """

    name: str
    hyperperiod: int
    contention: Fraction
    unserved: Fraction
    score: Fraction
    jobs: int
    cushion: int | None


@dataclass(frozen=True)
class Evaluation:
    """Objectives of a schedule and their parts, exact; docs/model.md defines them.

    Attributes
    ----------
    objectives
        Value per objective; the cushion is None when nothing limits it.
    links
        One report per link, in the order of the instance.
    elongation
        Predicted slots by which an iteration of each job grows.
    unserved
        Mean unserved bandwidth by job, summed over its links, Mbit/s; higher weights are served
        first.
    """

    objectives: Mapping[str, Fraction | None]
    links: tuple[LinkReport, ...]
    elongation: Mapping[str, Fraction]
    unserved: Mapping[str, Fraction]

    @property
    def contention(self) -> Fraction:
        """The contention."""
        value = self.objectives["contention"]
        assert value is not None  # noqa: S101 (only the cushion can be None)
        return value

    @property
    def scores(self) -> tuple[Fraction, ...]:
        """Compatibility scores of links with more than one job."""
        return tuple(link.score for link in self.links if link.jobs > 1)

    @property
    def score_mean(self) -> Fraction | None:
        """Mean compatibility of shared links; None if no link is shared."""
        return sum(self.scores, Fraction(0)) / len(self.scores) if self.scores else None

    @property
    def score_min(self) -> Fraction | None:
        """Smallest compatibility of shared links; None if no link is shared."""
        return min(self.scores, default=None)
