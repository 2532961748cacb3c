"""Tests in two tiers: a habit of minutes, and all that there is.

`make test` draws a part of the cases of property tests and leaves out what is marked slow;
`make test-slow` runs what is marked, and draws all cases.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

THOROUGH = bool(os.environ.get("METRONOME_THOROUGH"))
_PART = 5  # of the cases one in so many is drawn
_FEWEST = 5


def examples(count: int, **others: Any) -> settings:
    """Return settings of a property test for so many cases, or for a part of them."""
    return settings(
        max_examples=count if THOROUGH else max(min(count, _FEWEST), count // _PART), **others
    )
