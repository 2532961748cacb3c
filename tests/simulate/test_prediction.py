"""Where the predicted elongation of an iteration is what happens, and where it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.simulate import Conditions, play
from tests.simulate.played import column

SLOT_MS = 5
PERIOD = 40
lengths = st.integers(1, 15)


def elongations(heavy: int, light: int, late: int) -> tuple[float, float]:
    """Return predicted and simulated slots that a light job loses in its first iteration.

    It bursts for `light` slots and begins `late` slots after a heavier one, which takes the whole
    link for `heavy` slots.
    """
    instance = Instance(
        name="two",
        slot_ms=SLOT_MS,
        links=(Link(name="link", capacity=100),),
        jobs=tuple(
            Job(
                name=name,
                period=PERIOD,
                weight=weight,
                phases=(Phase(start=0, length=length, rate=100),),
                links={"link": 1},
            )
            for name, weight, length in (("heavy", 2, heavy), ("light", 1, light))
        ),
    )
    run = play(
        instance,
        {"heavy": 0, "light": late},
        iterations=1,
        conditions=Conditions(sharing="strict"),
        enforce=False,
    )
    mean, predicted = column(run, "iteration_mean_ms"), column(run, "predicted_ms")
    assert mean["heavy"] == PERIOD * SLOT_MS
    assert predicted["heavy"] == 0
    return predicted["light"] / SLOT_MS, mean["light"] / SLOT_MS - PERIOD


@given(lengths, lengths, st.integers(0, 14))
def test_a_burst_that_outlasts_the_heavier_one_loses_what_is_predicted(
    heavy: int, light: int, late: int
) -> None:
    light = max(light, heavy - late)
    lost = max(0, heavy - late)
    assert elongations(heavy, light, late) == (lost, lost)


@given(lengths, lengths, st.integers(0, 14))
def test_a_burst_within_a_heavier_one_loses_more_than_is_predicted(
    heavy: int, light: int, late: int
) -> None:
    """It lacks no more than it would have sent, but it waits until the other one is over."""
    heavy = max(heavy, late + light)
    assert elongations(heavy, light, late) == (light, heavy - late)
