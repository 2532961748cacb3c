"""Gates in forked processes: workers that load data must neither record nor answer scrapes."""

from __future__ import annotations

import os
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from metronome_opt.gate.gate import Gate

GATES: WeakSet[Gate] = WeakSet()
"""All gates of the process."""


def _forget() -> None:
    for gate in list(GATES):
        gate.forget()


os.register_at_fork(after_in_child=_forget)
