"""The monitor beside the loop of the controller: a thread decides, the loop changes the state."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread

from metronome_opt.cluster.gates import Read
from metronome_opt.cluster.monitor import Answer, Monitor, Question, Rephased
from metronome_opt.cluster.state import ClusterState

THREAD = "rephasing"
"""Name of the thread that decides."""


class Rephasing:
    """Decides about the slots of running gangs.

    Parameters
    ----------
    state
        With the claims in force.
    read, check_s, clock
        As of `Monitor`.
    """

    def __init__(
        self,
        state: ClusterState,
        read: Read | None = None,
        *,
        check_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._monitor = Monitor(read, check_s=check_s, clock=clock)
        self._monitor.follow(state)
        self._under_way: tuple[Question, Future[Answer]] | None = None

    def step(self) -> Rephased | None:
        """Apply the last decision if it is made, and have the next one made."""
        self._monitor.follow(self._state)
        if self._under_way is not None:
            question, future = self._under_way
            if not future.done():
                return None
            self._under_way = None
            return self._monitor.apply(self._state, question, future.result())
        following = self._monitor.next(self._state)
        if not isinstance(following, Question):
            return following
        self._under_way = following, Future()
        # No pool: a controller that ends does not wait for a decision.
        Thread(target=self._answer, args=self._under_way, name=THREAD, daemon=True).start()
        return None

    def _answer(self, question: Question, future: Future[Answer]) -> None:
        try:
            future.set_result(self._monitor.answer(question))
        except BaseException as error:
            future.set_exception(error)
