"""The rotation problem at given stretches: least contention first, then what the stretches cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metronome_opt.instance import Instance
from metronome_opt.multiobjective.looks import SolveAt, Solved, Values
from metronome_opt.multiobjective.periods import price_of, stretched
from metronome_opt.result import Event
from metronome_opt.solvers import auto, greedy
from metronome_opt.solvers.search import Search


class _Run(Search):
    """A search that also stops when somebody outside says so."""

    outside: Callable[[], bool]

    @property
    def stopped(self) -> bool:
        """Whether the solver has to return now."""
        if self.outside():
            self.interrupt()
        return super().stopped


def rotation(*, stopped: Callable[[], bool], seed: int, workers: int) -> SolveAt:
    """Return what solves for contention at given stretches; values are contention and stretch.

    Parameters
    ----------
    stopped
        Whether to return what there is.
    seed, workers
        For the solvers.
    """

    def solve_at(
        part: Instance, stretch: Mapping[str, int], seconds: float | None, beat: Values | None
    ) -> Solved:
        price = price_of(part, stretch)

        def hopeless(event: Event) -> bool:
            return beat is not None and event.bound is not None and (event.bound, price) >= beat

        search = _Run(
            stretched(part, stretch),
            time_limit=seconds or None,
            seed=seed,
            workers=workers,
            callback=hopeless,
        )
        search.outside = stopped
        if seconds == 0:
            greedy.run(search)
        else:
            auto.run(search)
        offsets = search.named()
        assert offsets is not None and search.incumbent is not None  # noqa: PT018 (greedy)
        return Solved((search.incumbent, price), offsets, search.bound, search.proved)

    return solve_at
