"""How policies look: each has its colour, dashes and place in all figures of all studies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from metronome_opt.plot import style

if TYPE_CHECKING:
    pass

MANY = 2000  # points; more of them would make a file large and no picture clearer

# From what clusters do today to what no policy can do better. The colours are those of Okabe and
# Ito; the dashes tell the lines in a print without colours.
_LOOKS: dict[str, tuple[str, Any, float]] = {
    "default": ("#595959", "-", 1.6),
    "exclusive": ("#CC79A7", (0, (5, 2)), 1.6),
    "cassini": ("#D55E00", (0, (5, 1.5, 1, 1.5)), 1.6),
    "metronome-greedy": ("#009E73", (0, (3, 1.2)), 1.6),
    "proposal": ("#E69F00", (0, (7, 1.5)), 1.6),
    "metronome": ("#0072B2", "-", 2.2),
    "ideal": (style.INK, (0, (1, 1.4)), 1.6),
}
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
