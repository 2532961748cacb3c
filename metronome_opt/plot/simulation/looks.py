"""How policies look: each has its colour, dashes and place in all figures of all studies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from metronome_opt.simulate.policies import REGISTERED

MANY = 2000  # points; more of them would make a file large and no picture clearer

_LOOKS = {name: policy.line for name, policy in REGISTERED.items() if policy.line is not None}
_OTHERS = ("#56B4E9", "#F0E442")


def in_order(policies: Collection[str]) -> tuple[str, ...]:
    """Return policies in the order in which they are shown, unknown ones last."""
    known = list(_LOOKS)
    return tuple(
        sorted(
            policies, key=lambda name: (known.index(name) if name in known else len(known), name)
        )
    )


def lines(policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return how the line of each policy is drawn, as the properties of a line."""
    others = [policy for policy in policies if policy not in _LOOKS]
    looks = _LOOKS | {
        policy: (_OTHERS[position % len(_OTHERS)], (0, (9, 2, 1 + position, 2)), 1.6)
        for position, policy in enumerate(others)
    }
    return {
        policy: dict(zip(("color", "linestyle", "linewidth"), looks[policy], strict=True))
        for policy in policies
    }
