"""What a state should hold, worked out slowly from the definitions, and how it is looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic_core import PydanticSerializationError

from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.scenario.cluster import ClusterSpec
from tests.scheduling.clusters import cluster, running


def flows_by_definition(spec: ClusterSpec, claim: Reservation, link: str) -> int:
    """Count the tasks that cross a link: those that have others of their job on its far side."""
    homes = {node.name: node for node in spec.nodes}
    uplinks = {rack.name: rack.uplink for rack in spec.racks}
    count = 0
    for node in claim.nodes:
        rack = homes[node].rack
        leaves_node = any(other != node for other in claim.nodes)
        leaves_rack = any(homes[other].rack != rack for other in claim.nodes)
        count += leaves_node and homes[node].rails[0] == link
        count += leaves_rack and rack is not None and uplinks[rack] == link
    return count


def residual_by_definition(state: ClusterState, link: str) -> list[int]:
    """Look up slot by slot what all claims leave of a link."""
    left = [int(state.capacity[state.link_index(link)])] * state.cluster.hyperperiod
    for claim in state.claims.values():
        flows = flows_by_definition(state.cluster, claim, link)
        for slot in range(state.cluster.hyperperiod):
            at = (slot - claim.offset) % (claim.gang.period + claim.stretch)
            for phase in claim.gang.phases:
                if phase.start <= at < phase.start + phase.length:
                    left[slot] -= flows * phase.rate
    return left


A = running("a", "n0 n1", (0, 4, 60), offset=2, weight=2, gpus=1)
B = running("b", "n0 n2", (0, 2, 30), offset=7, period=8, gpus=1)


def change(state: ClusterState) -> ClusterState:
    """Let four events happen: two jobs come, a link slows down, a node fails."""
    state.reserve(A)
    state.reserve(B)
    state.set_capacity("up-1", 40)
    state.set_node("n3", up=False)
    return state


def usual() -> ClusterState:
    """Return the state after these."""
    return change(ClusterState(cluster([2, 2])))


_INTERRUPTED = {"demand.py", "journal.py", "state.py", "store.py"}


class Interrupted(BaseException):
    """Comes from outside, as Ctrl-C does."""


def interrupt(call: Callable[[], object], line: int) -> bool:
    """Break into a call before some line that writes or changes a state; return if it came so far.

    Parameters
    ----------
    line
        How many lines run before.
    """
    before = sys.gettrace()
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if Path(frame.f_code.co_filename).name not in _INTERRUPTED:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        call()
    except (Interrupted, PydanticSerializationError):  # the latter if it was about to write
        return True
    finally:
        sys.settrace(before)
    return False
