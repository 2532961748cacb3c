"""Whatever ends a process that keeps a state, or breaks into it, nothing is done by half."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from pydantic_core import PydanticSerializationError

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.store import Store
from tests.kubernetes.state.events import differences, rebuilt
from tests.kubernetes.state.small import A, B, cluster, running, usual

_INTERRUPTED = {"state.py", "store.py"}


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


def refusal(call: Callable[[], object]) -> str | None:
    try:
        call()
    except InputError as error:
        return str(error)
    return None


def shifted(reservation: Reservation) -> Reservation:
    return reservation.model_copy(update={"offset": 0})


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.state.reserve(running("d", "n1 n2", (0, 1, 5), gpus=1, weight=7)),
        lambda store: store.state.unreserve("a"),
        lambda store: store.state.revise([shifted(A), shifted(B)]),
        lambda store: store.change_cluster(cluster([2, 3])),
    ],
    ids=["reserve", "unreserve", "revise", "cluster"],
)
def test_wherever_it_is_interrupted_no_event_is_done_by_half(
    call: Callable[[Store], object], kept: Path, tmp_path: Path
) -> None:
    outcome = tmp_path / "outcome"
    shutil.copy(kept, outcome)
    with Store(outcome) as store:
        call(store)
        after = rebuilt(store.state)
    went_on = line = 0
    interrupted = True
    while interrupted:
        torn = tmp_path / str(line)
        shutil.copy(kept, torn)
        with Store(torn) as store:
            interrupted = interrupt(lambda: call(store), line)
            goes_on = refusal(lambda: store.state.set_capacity("n2", 77)) is None
            expected = rebuilt(store.state) if goes_on else after
        with Store(torn) as store:
            assert differences(store.state, expected) == []
        torn.unlink()
        went_on += goes_on
        line += 1
    assert went_on > 10
    # An event that was noted, and not carried out as a whole, has to be read again.
    assert (went_on < line) == (after.sequence > usual().sequence)


def test_who_was_interrupted_is_told_to_read_again(kept: Path) -> None:
    refused = None
    with Store(kept) as store:
        for line in itertools.count():
            interrupt(lambda: store.state.set_capacity("n0", line), line)  # noqa: B023
            refused = refusal(lambda: store.state.set_capacity("n1", line))  # noqa: B023
            if refused is not None:
                break
        assert refusal(lambda: store.change_cluster(cluster([2, 3]))) == refused
        assert refusal(lambda: store.state.unreserve("a")) == refused
    assert refused is not None
    assert refused.endswith("was interrupted; open the file again")
    with Store(kept) as store:
        assert store.state.unreserve("a")
