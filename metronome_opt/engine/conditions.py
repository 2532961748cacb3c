"""Conditions that disturb a run: none by default."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from metronome_opt.files.records import Record
from metronome_opt.problem.instance import Sharing

JITTER = 0.02
"""Standard deviation of a computing time, as a share of it, of a job of which none is known."""


def jitter_or_default(jitter: float | None) -> float:
    """Return the jitter of a job, `JITTER` where it is not known."""
    return JITTER if jitter is None else jitter


class TcpShares(NamedTuple):
    """Shares of bursts over TCP."""

    spread: float  # standard deviation of the logarithm of a burst's share
    newcomer: float  # factor on the share of a burst that meets another one when it begins


TCP = TcpShares(spread=0.2, newcomer=0.7)
"""Fitted to bursts of real connections, see benchmarks/testbed/README.md."""


class Growth(NamedTuple):
    """Growth of a burst's share: slope * what its iteration has sent, from 0 to 1, + intercept."""

    slope: float
    intercept: float


class Conditions(Record):
    """Conditions under which jobs run.

    Parameters
    ----------
    jitter
        Standard deviation of a computing time, as a share of it, of jobs that do not state theirs;
        normal, cut off at three of them.
    drift_ppm
        The clock of each job is fast or slow by up to this, uniformly.
    sharing
        How links are shared, as the `network` of a cluster; None for what the cluster says.
    horizon_s
        End of the simulation; None for the departure of the last job.
    move_cost_s
        Time that a move costs a running job, checkpoint and restart; None for no moves. Only the
        policy ``metronome`` moves jobs.
    """

    jitter: Annotated[float, Field(ge=0, le=0.3, allow_inf_nan=False)] = 0.0
    drift_ppm: Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)] = 0.0
    sharing: Sharing | None = None
    horizon_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    move_cost_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @property
    def random(self) -> bool:
        """Return True if anything about the jobs is random."""
        return bool(self.jitter or self.drift_ppm)
