"""The processes of simulations: ``python -m metronome_opt.bench.simulation_worker``.

It is to simulations what `worker` is to solvers, and speaks as that does. The clock starts when
everything that happens once per process is behind it: two jobs were simulated by the same policy.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from metronome_opt.bench.worker import Tell, serve
from metronome_opt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_WARM: dict[str, Any] = {
    "format": "metronome-scenario/1",
    "name": "warm",
    "slot_ms": 5,
    "hyperperiod_ms": 1500,
    "cluster": {
        "topology": "leaf-spine",
        "nodes": 4,
        "gpus": 1,
        "nic_gbps": 50,
        "racks": 2,
        "oversubscription": 2,
        "gpu": {"name": "any", "sustained_tflops": {"value": 20, "assumed": "nobody looks at it"}},
    },
    "jobs": [
        {"name": name, "model": "VGG19", "batch": 64, "workers": 2, "iterations": 3}
        for name in ("a", "b")
    ],
}


def run_simulation(document: dict[str, Any], tell: Tell) -> None:
    """Simulate a scenario and say what it brings.

    Parameters
    ----------
    document
        ``scenario``, ``policy``, ``seed``, ``conditions``, ``sample_s``.
    tell
        Told of ``ready`` and ``end``; of ``error`` if the input is refused.
    """
    try:
        _run(document, tell)
    except InputError as error:
        tell("error", kind="refused", text=str(error))


def _run(document: dict[str, Any], tell: Tell) -> None:
    from metronome_opt.scenario import Scenario
    from metronome_opt.simulate import Conditions, simulate

    scenario = Scenario.from_dict(document["scenario"])
    conditions = Conditions.model_validate(document["conditions"])
    policy = document["policy"]
    simulate(Scenario.from_dict(_WARM), policy, conditions=conditions)
    tell("ready")
    begin = time.perf_counter()
    run = simulate(
        scenario,
        policy,
        seed=document["seed"],
        conditions=conditions,
        sample_s=document["sample_s"],
    )
    tell(
        "end",
        runtime_s=round(time.perf_counter() - begin, 6),
        jobs=columns_of(run.jobs),
        links=columns_of(run.links),
        samples=columns_of(run.samples),
        makespan_s=float(run.makespan_s),
        events=int(run.events),
        notes=run.notes,
    )


def _load() -> None:
    """Import everything, and compile or load what most policies need."""
    from metronome_opt.scenario import Scenario
    from metronome_opt.simulate import simulate

    for policy in ("metronome", "cassini"):
        simulate(Scenario.from_dict(_WARM), policy)


def columns_of(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return a table as a list for each column, None for what is not known."""
    return {
        str(name): [None if value != value else value for value in column.tolist()]
        for name, column in frame.items()
    }


if __name__ == "__main__":
    sys.exit(serve(run_simulation, _load))
