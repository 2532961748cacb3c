"""Taking times: the best of several calls, since whatever else the machine does only adds."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_time(call: Callable[[], object], repeats: int) -> float:
    """Return the minimum of the seconds that `call` took, after one call that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
