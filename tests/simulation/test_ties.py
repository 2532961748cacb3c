"""Events of one moment are in the order that `metronome_opt.engine` states."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.scenario.iteration import Iteration
from tests.builders import job
from tests.simulation.exact import exact_times, system
from tests.simulation.runs import free_run, running
from tests.simulation.whole import meeting
from tests.tiers import examples


def test_events_without_duration_keep_their_order() -> None:
    """a's second burst follows its first without computing, before b's ends at that moment."""
    jobs = job("a", 3, (0, 1, 50), (1, 2, 100)), job("b", 2, (0, 1, 50))
    engine = running(*(Iteration.of_job(each, 10) for each in jobs), watched=["link"])
    engine.run(15.0)
    trace = engine.trace()
    assert list(zip(trace["time_ms"], trace["job"], trace["rate_mbps"], strict=True)) == [
        (0, "a", 50),
        (0, "b", 50),
        (10, "a", 0),
        (10, "a", 50),
        (10, "b", 0),
        (10, "a", 100),
    ]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Instance, dict[str, int], dict[str, int]]:
    instance = draw(meeting())
    stretch = {each.name: draw(st.integers(0, each.max_stretch)) for each in instance.jobs}
    offsets = {
        each.name: draw(st.integers(0, each.period + stretch[each.name] - 1))
        for each in instance.jobs
    }
    return instance, offsets, stretch


@examples(300)
@given(schedules(), st.integers(2, 6))
def test_gated_jobs_match_exact_simulation(
    drawn: tuple[Instance, dict[str, int], dict[str, int]], iterations: int
) -> None:
    """All times are whole, so most events are ties."""
    instance, offsets, stretch = drawn
    exact = exact_times(system(instance, offsets, iterations, stretch=stretch))
    assume(all(time.denominator == 1 for times in exact.values() for time in times))
    run = free_run(instance, offsets, iterations, stretch=stretch)
    assert {name: list(times) for name, times in run.times.items()} == exact
