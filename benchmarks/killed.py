"""A process that keeps the state of a cluster and is killed at any moment, and what is left of it.

``python -m benchmarks.killed FOLDER SEED`` writes until it is killed, and tells the number of each
event when it is carried out.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.happenings import differences, draw, somewhere
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.store import Store
from metronome_opt.errors import InputError

_ROOT = Path(__file__).parent.parent
_LONGEST = 20  # events from one snapshot to the next, so that some kills meet one


def kill_a_writer(folder: Path, known: ClusterState, seed: int, seconds: float) -> list[str]:
    """Let a process change a state, kill it, and return what is wrong with what it left.

    The state has to be the one after some of the events, and no fewer than it told of.

    Parameters
    ----------
    folder
        Holds the state.
    known
        The same state, kept here; afterwards with the events that were carried out.
    seconds
        From the moment at which it has opened the folder.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.killed", str(folder), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    ) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline())]
        time.sleep(seconds)
        child.kill()
        told += map(int, child.stdout.read().split())
    with Store(folder) as store:
        found = store.state
    if found.sequence < told[-1]:
        return [f"seed {seed}: event {told[-1]} was told, and {found.sequence} are left"]
    chance = random.Random(seed)
    while known.sequence < found.sequence:
        _happen(chance, known)
    return [f"seed {seed}: {line}" for line in differences(found, known)]


def _happen(chance: random.Random, state: ClusterState) -> None:
    event = draw(chance, state, somewhere).event
    if event is None:
        return
    try:
        state.apply(event)
    except InputError:
        return  # one of the mistakes


def _write(folder: str, seed: int) -> None:
    chance = random.Random(seed)
    with Store(folder, longest=_LONGEST) as store:
        while True:
            print(store.state.sequence, flush=True)  # noqa: T201 (this is how it tells)
            _happen(chance, store.state)


if __name__ == "__main__":
    _write(sys.argv[1], int(sys.argv[2]))
