"""What a plan is worth, and which periods jobs may be given together."""

from __future__ import annotations

import numpy as np
import pytest

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.minimise import is_short
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Judge, plays
from tests.builders import job, network
from tests.slowdown.cases import NESTED, TIGHT


def test_harm_outweighs_gain() -> None:
    alone = network(job("a", 20, (0, 6, 100)))
    judge = Judge(alone, plays(0, 1))
    # Slower by 1 %, which is allowed, and by 10 %: 9 % of it ten times more.
    assert judge.value(Plan({"a": 0}, {"a": 22})) == pytest.approx(1.1 + 10 * 0.09, abs=0.03)


def test_hyperperiods_stay_within_limit() -> None:
    crowd = network(job("a", 20, (0, 9, 60)), job("b", 22, (0, 9, 60)))
    limited = Instance.from_dict(crowd.to_dict(), hyperperiod_limit=220)
    assert is_short(crowd, ["link"], {}, {"a": 21})
    assert not is_short(limited, ["link"], {}, {"a": 21})
    assert is_short(limited, ["link"], {}, {"a": 22})
    # Nor longer than what the judge can walk through.
    alike = network(job("a", 100, (0, 9, 60)), job("b", 100, (0, 9, 60)))
    assert is_short(alike, ["link"], {}, {"a": 149, "b": 134})
    assert not is_short(alike, ["link"], {}, {"a": 149, "b": 139})
    assert is_short(alike, [], {}, {"a": 149, "b": 139})


def test_harm_under_one_sharing_rule_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free 1.4 under fair sharing and 1.0 over TCP; with slots the mean is about 1.03."""
    told = Plan(TIGHT.unshifted, dict.fromkeys("abc", 21))
    assert [job.period for job in TIGHT.jobs] == [20, 20, 20]

    def play(tcp: float, plan: Plan) -> bool:
        judge = Judge(TIGHT, plays(0, 1))
        monkeypatch.setattr(judge, "_unshifted", np.array([[1.4] * 3, [1.0] * 3]))
        monkeypatch.setattr(judge, "limits", np.array([1.2 * 1.01] * 3))
        times = np.array([[1.05] * 3, [1.0, 1.0, tcp]])
        monkeypatch.setattr(judge.player, "by_sharing", lambda _: times)
        return judge.is_harmless(plan)

    assert play(1.05, told)
    assert not play(1.08, told)
    assert not play(1.05, Plan({**TIGHT.unshifted, "a": 1}))


def test_unshifted_jobs_do_no_harm() -> None:
    judge = Judge(NESTED, plays(0, 1))
    assert judge.value(Plan(NESTED.unshifted)) == judge.player.value(judge.unshifted)
    assert np.array_equal(judge.unshifted, judge.player.slowdowns(Plan(NESTED.unshifted)))
    later = Plan({"a": 0, "b": 3})
    assert np.array_equal(judge.slowdowns(later), judge.player.slowdowns(later))
    assert not np.array_equal(judge.slowdowns(later), judge.unshifted)


def test_plan_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it was asked about, the time limit was exceeded."""
    judge = Judge(NESTED, plays(0, 1))
    played: list[Plan] = []
    real = judge.player.by_sharing

    def counted(plan: Plan) -> Floats:
        played.append(plan)
        return real(plan)

    monkeypatch.setattr(judge.player, "by_sharing", counted)
    first, second = Plan({"a": 0, "b": 3}), Plan({"b": 3, "a": 0}, {"a": 40})
    values = [judge.value(plan) for plan in (first, second)]
    assert [judge.value(Plan({"b": 3, "a": 0}, periods)) for periods in ({}, {"a": 40})] == values
    assert [judge.is_harmless(plan) for plan in (first, Plan(NESTED.unshifted))][1]
    assert played == [first, second]
