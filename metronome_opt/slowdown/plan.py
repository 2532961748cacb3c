"""What jobs are told: where each begins, who keeps slots, and how far these lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from immutabledict import immutabledict

from metronome_opt.instance import Instance
from metronome_opt.result import Result


@dataclass(frozen=True)
class Plan:
    """A kept schedule, and where the others begin.

    Attributes
    ----------
    offsets
        Of all jobs, in slots; a job that is not gated begins there, and nobody holds it to that.
    periods
        From one slot of a gated job to its next, by name. Jobs that are not named run freely.
    """

    offsets: Mapping[str, int]
    periods: Mapping[str, int] = immutabledict()

    @classmethod
    def of(cls, result: Result) -> Plan:
        """Return what a result tells its jobs; nobody is gated if it does not say who is."""
        gated = result.schedule.gated or {}
        periods = {
            job.name: job.period + result.stretch[job.name]
            for job in result.instance.jobs
            if gated.get(job.name)
        }
        return cls(result.offsets, periods)

    def stretch(self, instance: Instance) -> dict[str, int]:
        """Return the idle slots of each job."""
        return {
            job.name: self.periods.get(job.name, job.period) - job.period for job in instance.jobs
        }
