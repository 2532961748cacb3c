"""Claims and observations that several tests of control share."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from metronome_opt.control import Burst, Claims, Observation
from metronome_opt.instance import Instance
from tests.builders import job, network
from tests.strategies import instances


def three_apart(cushion: int = 1) -> Claims:
    """Return three bursts of 10, 10 and 12 slots that are kept apart in a period of 40."""
    instance = network(
        job("a", 40, (0, 10, 80), weight=4, current_offset=0),
        job("b", 40, (0, 10, 80), current_offset=12),
        job("c", 40, (0, 12, 80), current_offset=25),
    )
    return Claims(instance, 1000.0, cushions=dict.fromkeys("abc", cushion))


def obedient(
    claims: Claims, *, at_ms: float = 20_000.0, late_ms: Mapping[str, float] | None = None
) -> dict[str, Observation]:
    """Return what is measured of jobs that do as they claim, but for some that are late."""
    slot_ms = claims.instance.slot_ms
    return {
        job.name: Observation(
            period_ms=float(job.period * slot_ms),
            origin_ms=claims.next_due_ms(job.name, at_ms) + (late_ms or {}).get(job.name, 0.0),
            bursts=tuple(
                Burst(
                    float(phase.start * slot_ms), float(phase.length * slot_ms), float(phase.rate)
                )
                for phase in sorted(job.phases, key=lambda phase: phase.start)
            ),
        )
        for job in claims.running.jobs
    }


def placed(instance: Instance, offsets: Mapping[str, int]) -> Instance:
    """Return an instance whose jobs run at some offsets."""
    jobs = tuple(
        job.model_copy(update={"current_offset": offsets[job.name]}) for job in instance.jobs
    )
    return instance.replace(jobs=jobs)


@st.composite
def running(draw: st.DrawFn, *, max_jobs: int = 4, max_links: int = 2) -> Claims:
    """Draw claims of a small instance, nobody stretched, with cushions of up to one slot."""
    instance = draw(instances(max_jobs=max_jobs, max_links=max_links, fixed=False))
    offsets = {job.name: draw(st.integers(0, job.period - 1)) for job in instance.jobs}
    cushions = {job.name: draw(st.integers(0, 1)) for job in instance.jobs}
    return Claims(placed(instance, offsets), 1000.0, cushions=cushions)
