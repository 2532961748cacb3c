"""HiGHS as a program: ``python highs_process.py FILE.mps OPTIONS``.

A process of its own, because OR-Tools and highspy both bring a shared library called libhighs, of
different versions: whichever is imported second in one process fails to load.

`time_limit` among the options is a reading of the monotonic clock, so that loading the file counts.
Prints one JSON object a line: ``{"solution": {name: value}}`` (nonzero values), ``{"bound": b}``
and at the end ``{"status": name, "objective": v, "bound": b}``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main(arguments: list[str]) -> int:
    """Solve a file; 3 says that highspy is not installed."""
    path, options = arguments
    try:
        import highspy
    except ImportError:
        return 3
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    highs.readModel(path)
    chosen = json.loads(options)
    if "time_limit" in chosen:
        chosen["time_limit"] = max(0.0, chosen["time_limit"] - time.monotonic())
    for name, value in chosen.items():
        highs.setOptionValue(name, value)
    names = [column.name for column in highs.getVariables()] if highs.getNumCol() else []

    def tell(**message: Any) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def tell_solution(values: Any) -> None:
        tell(solution={n: v for n, v in zip(names, map(float, values), strict=True) if v})

    highs.HandleKeyboardInterrupt = True
    highs.cbMipImprovingSolution += lambda event: tell_solution(event.data_out.mip_solution)
    highs.cbMipLogging += lambda event: tell(bound=float(event.data_out.mip_dual_bound))
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        tell_solution(highs.getSolution().col_value)
    info = highs.getInfo()
    tell(
        status=status.name,
        objective=float(info.objective_function_value),
        bound=float(info.mip_dual_bound),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
