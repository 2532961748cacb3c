"""The gate of a training loop: bursts wait for the windows that their job was given.

>>> from metronome_opt.gate import Gate
>>> gate = Gate.from_environment()
>>> with gate.burst():
...     all_reduce(gradients)

Only the standard library is needed, so that a training image can have it without what solvers need.
"""

from __future__ import annotations

from metronome_opt.gate.burst import Burst
from metronome_opt.gate.gate import Gate
from metronome_opt.gate.windows import STALL, Claim

__all__ = ["STALL", "Burst", "Claim", "Gate"]
