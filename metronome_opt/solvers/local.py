"""Local search: annealing, walks over local optima, recombination and large neighbourhoods."""

from __future__ import annotations

from metronome_opt.kernels.tables import CostTooLargeError, compile_instance
from metronome_opt.solvers import greedy
from metronome_opt.solvers.population import Population
from metronome_opt.solvers.search import Search

PATIENCE = 3  # generations


def run(search: Search) -> None:
    """Improve the greedy schedule until the time is over or nothing better turns up for long."""
    greedy.run(search)
    improve(search, share=1.0)


def improve(
    search: Search, *, share: float, seed: int | None = None, patience: int = PATIENCE
) -> None:
    """Improve the incumbent.

    Ends after `patience` generations in a row without a gain, each of which takes twice the effort
    of the one before; or when `share` of the time that is left is used up.

    Parameters
    ----------
    seed
        That of the search if None.
    """
    population = begin(search, seed, share=share)
    while population is not None and population.idle < patience and not population.pace.over:
        population.play()


def begin(search: Search, seed: int | None = None, *, share: float = 1.0) -> Population | None:
    """Return a local search that goes on from the incumbent, None if there is nothing to search.

    Parameters
    ----------
    seed
        That of the search if None.
    share
        Of the time that is left, the most that it may take.
    """
    if search.best is None or search.stopped:
        return None
    try:
        compiled = compile_instance(search.instance, common_scale=True)
    except CostTooLargeError as error:
        search.notes.append(f"no local search: {error}")
        return None
    population = Population(search, compiled, search.seed if seed is None else seed)
    population.pace.allot(share)
    return population if population.is_movable else None
