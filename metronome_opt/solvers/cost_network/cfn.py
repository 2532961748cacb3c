"""A cost network as toulbar2 reads it: the CFN format, JSON with variables, scopes and tables.

Costs are the integers of the network, and its floor is one of them. The reader is asked for what
is within the limit of the network; a cell beyond the headroom costs more than that, no matter by
how much.

Format: "CFN format" in https://toulbar2.github.io/toulbar2/
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from metronome_opt.errors import quote
from metronome_opt.solvers.cost_network.model import Cost, CostNetwork
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError

LARGEST = 5 * 10**17
"""Costs of toulbar2 are 64-bit integers of which it takes those below some 5.1e17."""


def cfn_text(network: CostNetwork) -> str:
    """Return a network in CFN format; of a cost without a table it has the lower bound alone.

    Raises
    ------
    TooLargeError
        If the limit of the network is more than toulbar2 counts to.
    """
    if network.limit >= LARGEST:
        raise TooLargeError(
            f"the objective of {network.compiled.instance.name} may reach {quote(network.limit)} "
            f"units, toulbar2 counts to {LARGEST}; use cpsat, or numbers with a larger common "
            "divisor"
        )
    problem = {"name": "rotation", "mustbe": f"<{network.limit + 1}"}
    variables = {
        f"job_{job}": [f"at_{offset}" for offset in domain]
        for job, domain in enumerate(network.domains)
    }
    functions = ",\n".join(f"{json.dumps(name)}: {text}" for name, text in _functions(network))
    return (
        f'{{"problem": {json.dumps(problem)},\n"variables": {json.dumps(variables)},\n'
        f'"functions": {{\n{functions}\n}}}}\n'
    )


def entries(network: CostNetwork, cost: Cost) -> int:
    """Return how many numbers a table takes in the format, dense or sparse."""
    assert cost.excess is not None  # noqa: S101 (the caller's choice)
    within = int(np.count_nonzero(cost.excess <= network.headroom))
    return min(cost.excess.size, within * (1 + len(cost.scope)))


def _functions(network: CostNetwork) -> Iterator[tuple[str, str]]:
    """Yield the floor and the tables, by name; those of one cell are within the floor."""
    yield "floor", json.dumps({"scope": [], "costs": [network.floor]})
    for number, cost in enumerate(network.costs):
        if cost.excess is None or cost.excess.size == 1:
            continue
        scope = [job for job in cost.scope if len(network.domains[job]) > 1]
        table = cost.excess.reshape([len(network.domains[job]) for job in scope])
        stated: dict[str, object] = {"scope": [f"job_{job}" for job in scope]}
        if entries(network, cost) < table.size:
            cells = np.argwhere(table <= network.headroom)
            values = table[tuple(cells.T)]
            stated["defaultcost"] = network.headroom + 1
            stated["costs"] = np.column_stack((cells, values)).ravel().tolist()
        else:
            stated["costs"] = table.ravel().tolist()
        name = "left" if cost.link is None else network.compiled.links[cost.link].name
        yield f"cost_{number}_{_plain(name)}", json.dumps(stated)


def _plain(name: str) -> str:
    """Return a name without what the format does not allow."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
