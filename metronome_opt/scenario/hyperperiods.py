"""Hyperperiods for jobs as they come: short, and divided by many periods."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import default_limit
from metronome_opt.scenario.build import build_scenario, spread
from metronome_opt.scenario.cluster_input import ROOM
from metronome_opt.scenario.scenario_file import Scenario

# Each has more divisors than any smaller number: so many more periods fit a hyperperiod.
_COMPOSITE = (
    *(2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040),
    *(7560, 10_080, 15_120, 20_160, ROOM),
)
_SEARCHED = 100_000  # slots up to which a hyperperiod is looked for
_LONGER = (0.05, 0.1, 0.2, 0.4, 1.0)  # shares of a period that a hyperperiod may add to it


def with_hyperperiod(scenario: Scenario) -> Scenario:
    """Return a scenario whose jobs all repeat together, and with others that come later.

    Its own hyperperiod, if it has one, stays. An `InputError` if the periods are too long for one.
    """
    if scenario.hyperperiod_ms is not None:
        return scenario
    periods = {entry.rounded.busy for entry in build_scenario(spread(scenario)).traffic}
    limit = default_limit()
    if (slots := common_hyperperiod(periods, limit)) is None:
        raise InputError(
            f"hyperperiod_ms: missing, and none of up to {limit} slots suits the periods; coarsen "
            "the slots or raise the limit"
        )
    many = max((each for each in _COMPOSITE if slots * each <= min(limit, ROOM)), default=1)
    return scenario.model_copy(update={"hyperperiod_ms": slots * many * scenario.slot_ms})


def common_hyperperiod(periods: Collection[int], longest: int) -> int | None:
    """Return a hyperperiod of at most `longest` slots for some periods; None if there is none.

    That is their least common multiple, or if this is too long the shortest number that has a
    divisor close above each of them: longer by at most 5 %, or else by 10, 20, 40 or 100 %.
    """
    together = math.lcm(*periods)
    if together <= longest:
        return together
    first, last = max(periods), min(longest, max(_SEARCHED, 2 * max(periods)))
    if first > last:
        return None
    for share in _LONGER:
        suits = np.ones(last - first + 1, dtype=bool)
        for period in set(periods):
            near = np.zeros_like(suits)
            for divisor in range(period, min(last, math.floor(period * (1 + share))) + 1):
                near[-first % divisor :: divisor] = True
            suits &= near
        if suits.any():
            return first + int(suits.argmax())
    return None
