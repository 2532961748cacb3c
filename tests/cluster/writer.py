"""A process that changes the state of a cluster until it is killed, and the state it leaves.

``python -m tests.cluster.writer FOLDER SEED`` prints the number of each event once it is applied.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.store import Store
from metronome_opt.errors import InputError
from tests.cluster.events import differences, draw

_ROOT = Path(__file__).parents[2]
_INTERVAL = 20  # events from one snapshot to the next, so that some kills meet one


def kill_a_writer(folder: Path, known: ClusterState, seed: int, seconds: float) -> list[str]:
    """Let a process change a state, kill it, and return what is wrong with what it left.

    The state has to be the one after some of the events, and no fewer than it printed.

    Parameters
    ----------
    folder
        Holds the state.
    known
        The same state, kept here; afterwards with the events that were applied.
    seconds
        From the moment at which it has opened the folder.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.writer", str(folder), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    ) as child:
        assert child.stdout is not None
        printed = [int(child.stdout.readline())]
        time.sleep(seconds)
        child.kill()
        printed += map(int, child.stdout.read().split())
    with Store(folder) as store:
        left = store.state
    if left.sequence < printed[-1]:
        return [f"seed {seed}: event {printed[-1]} was printed, and {left.sequence} are left"]
    chance = random.Random(seed)
    while known.sequence < left.sequence:
        _apply_next(chance, known)
    return [f"seed {seed}: {line}" for line in differences(left, known)]


def _apply_next(chance: random.Random, state: ClusterState) -> None:
    event = draw(chance, state)
    if event is None:
        return
    try:
        state.apply(event)
    except InputError:
        return  # one of the mistakes


def _write(folder: str, seed: int) -> None:
    chance = random.Random(seed)
    with Store(folder, longest=_INTERVAL) as store:
        while True:
            print(store.state.sequence, flush=True)  # noqa: T201 (the test reads it)
            _apply_next(chance, store.state)


if __name__ == "__main__":
    _write(sys.argv[1], int(sys.argv[2]))
