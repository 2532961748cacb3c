"""TCP shares of links are random, and smaller for newcomers."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.compiling import kernel
from metronome_opt.engine.conditions import TcpShares
from metronome_opt.engine.fluid.loop import _share_of_burst, mix
from metronome_opt.engine.fluid.state import EngineState, Floats, empty_state
from metronome_opt.problem.instance import Instance
from metronome_opt.simulation import Conditions
from tests.builders import job
from tests.simulation.runs import FreeRun, free_run, links
from tests.simulation.test_conservation import DRAWN, ITERATIONS, SLACK
from tests.tiers import examples

PAIR = links(job("a", 10, (6, 4, 100)), job("b", 10, (6, 4, 100)))
NEWCOMERS = TcpShares(spread=0.0, newcomer=0.5)
EQUALS = TcpShares(spread=0.0, newcomer=1.0)

# Slots of 10 ms; links carry 100. A burst that meets another when it begins has half a share.
CASES: tuple[tuple[Instance, dict[str, int], dict[str, tuple[int, ...]]], ...] = (
    # From 60 on, a gets 200/3 and b 100/3. a is done at 120; b has sent 2000 of 4000 then and has
    # the link alone: 140. At 180 a begins alone, at 200 b comes: a sends its other 2000 by 230, b
    # 1000 by then and 3000 more by 260. At 290 and 320: a sends 3000 alone, 1000 by 335, b 500 by
    # then and 3500 more by 370.
    (PAIR, {"a": 0, "b": 0}, {"a": (120, 230, 335), "b": (140, 260, 370)}),
    # b begins at the moment at which a ends, so it meets none. By 40 it has sent 2000 of 4000;
    # beside c at 200/3 it is done at 70, when c has sent 1000 of 2000.
    (
        links(job("a", 2, (0, 2, 100)), job("b", 4, (0, 4, 100)), job("c", 2, (0, 2, 100))),
        {"a": 0, "b": 2, "c": 4},
        {"a": (20,), "b": (70,), "c": (80,)},
    ),
    # Half a share for each of b's flows: 50 for a, 25 for each of them. b is done at 40, when a has
    # sent 2000 of 3000.
    (
        links(job("a", 3, (0, 3, 100)), job("b", 1, (0, 1, 100), links={"link": 2})),
        {"a": 0, "b": 0},
        {"a": (50,), "b": (40,)},
    ),
)


@pytest.mark.parametrize(("instance", "offsets", "ends"), CASES)
def test_newcomers_get_smaller_shares(
    instance: Instance, offsets: dict[str, int], ends: dict[str, tuple[int, ...]]
) -> None:
    run = free_run(instance, offsets, len(ends["a"]), "tcp", tcp=NEWCOMERS)
    for name, expected in ends.items():
        begun = offsets[name] * instance.slot_ms
        assert begun + run.times[name].cumsum() == pytest.approx(expected, rel=SLACK)


def bytes_of(run: FreeRun) -> list[object]:
    """Return all that came of a run, comparable to the last bit."""
    return [
        {name: times.tobytes() for name, times in run.times.items()},
        *(value for name, value in asdict(run).items() if name not in ("times", "trace")),
        run.trace.to_csv(),
    ]


@examples(100)
@given(DRAWN, st.sampled_from((0.0, 0.2)), st.integers(0, 3))
def test_equal_constant_shares_are_fair_sharing_to_the_last_bit(
    drawn: tuple[Instance, dict[str, int]], jitter: float, seed: int
) -> None:
    conditions = Conditions(jitter=jitter)
    fair = free_run(*drawn, ITERATIONS, "fair", conditions, seed)
    tcp = free_run(*drawn, ITERATIONS, "tcp", conditions, seed, tcp=EQUALS)
    assert bytes_of(tcp) == bytes_of(fair)


@kernel
def _draw_shares(state: EngineState, drawn: Floats) -> None:
    for draw in range(drawn.shape[0]):
        drawn[draw] = _share_of_burst(state, 0, mix(np.uint64(5), draw))


def shares(state: EngineState, count: int) -> Floats:
    """Return the shares of so many bursts of the first job."""
    drawn = np.empty(count)
    _draw_shares(state, drawn)
    return drawn


def test_shares_are_lognormal_with_stated_factor_for_newcomers() -> None:
    """Of 20,000: standard errors of 0.004 for the median and 0.0016 for the deviation.

    Cut off at three deviations, a normal number deviates by 0.997.
    """
    state = empty_state(jobs=1, links=2, uses=2, segments=1, kept=1, trace=1)
    state.clock["spread"], state.clock["newcomer"] = 0.3, 0.6
    state.jobs["uses"] = 2
    state.uses["link"] = 0, 1
    logs = np.log(shares(state, 20_000))
    assert np.median(logs) == pytest.approx(0, abs=0.015)
    assert logs.std() == pytest.approx(0.3, abs=0.006)
    assert np.abs(logs).max() == pytest.approx(0.9)
    assert np.mean(np.abs(logs) < 0.3) == pytest.approx(0.683, abs=0.015)
    state.links["active"] = 0, 1
    meeting = np.log(shares(state, 20_000))
    assert meeting - logs == pytest.approx(np.full(len(logs), math.log(0.6)))


@pytest.mark.parametrize("seed", range(5))
def test_tcp_separates_bursts_that_fair_sharing_keeps_together(seed: int) -> None:
    """Under fair sharing both burst for 80 ms instead of 40, for ever."""
    fair = free_run(PAIR, {"a": 0, "b": 0}, 60, "fair")
    tcp = free_run(PAIR, {"a": 0, "b": 0}, 60, "tcp", seed=seed)
    for name in "ab":
        assert list(fair.times[name]) == [140.0] * 60
        assert max(tcp.times[name][:2]) > 105
        assert list(tcp.times[name][40:]) == pytest.approx([100.0] * 20, abs=0.01)
