"""The state of a cluster through 100,000 events, mistakes and kills.

After every event the state is compared, to the last number, with one built from scratch.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.happenings import draw, small_cluster
from benchmarks.killed import kill_a_writer
from benchmarks.registry import Figure, benchmark
from metronome_opt.cluster.gang import Gang, Reservation
from metronome_opt.cluster.state import ClusterState, Mode
from metronome_opt.cluster.store import Store
from metronome_opt.cluster.views import differences, rebuilt
from metronome_opt.errors import InputError
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.place import place_greedily

_EVENTS: dict[Mode, int] = {"shared": 80_000, "exclusive": 20_000}
_KILLS = 200  # of processes of their own
_LIVES = 500  # events from one reopening to the next, on average
_LONGEST = 1_000  # events in a journal; it is in memory as well
_SAMPLES = 20  # how often memory is looked at
_TAILS = (b"", b"", b'{"cluster":"soaked","sequ', b"\0" * 50)


@benchmark(
    "After 100,000 arrivals, departures, failures and kills, is the state what it should be?"
)
def soak(small: bool) -> Iterator[Figure]:
    """Let a small cluster live on, first with shared bandwidth, then with exclusive bandwidth."""
    with tempfile.TemporaryDirectory() as folder:
        for mode, events in _EVENTS.items():
            life = _Life(Path(folder) / mode, mode, seed=events)
            yield from life.figures(200 if small else events)
        yield from _kills(Path(folder) / "killed", 2 if small else _KILLS)


class _Life:
    """A cluster whose state is kept in a folder, and what has been seen of it."""

    def __init__(self, folder: Path, mode: Mode, seed: int) -> None:
        self._folder, self._mode = folder, mode
        self._chance = random.Random(seed)
        self._lives = 0
        Store.create(folder / "0", small_cluster(), mode=mode).__exit__(None, None, None)
        self._store = Store(folder / "0", longest=_LONGEST)
        self._counts: Counter[str] = Counter()
        self._wrong: list[str] = []
        self._megabytes: list[float] = []
        self._journal = 0

    def figures(self, events: int) -> Iterator[Figure]:
        """Let so many things happen, and tell what was seen."""
        start, used = time.perf_counter(), time.process_time()
        for index in range(events):
            while not self._happen():
                pass
            if self._chance.random() < 1 / _LIVES:
                self._die()
            if index % (events // _SAMPLES) == 0:
                self._megabytes.append(psutil.Process().memory_info().rss / 2**20)
        self._store.__exit__(None, None, None)
        seconds, core_seconds = time.perf_counter() - start, time.process_time() - used

        def figure(name: str, value: float, unit: str, bar: str = "") -> Figure:
            return Figure(f"{self._mode}: {name}", value, unit, bar)

        for name, count in sorted(self._counts.items()):
            yield figure(name, count, "times")
        yield figure("differs from what it should be", len(self._wrong), "times", "<= 0")
        yield figure("all of it, waiting for the disk included", seconds, "s")
        yield figure("all of it, on the core", core_seconds, "s", "<= 600")
        yield figure("largest journal", self._journal / 2**20, "MB")
        # At the beginning kernels are loaded, and the journal grows.
        early, late = self._megabytes[_SAMPLES // 10], self._megabytes[-1]
        yield figure("memory after a tenth of it", early, "MB")
        yield figure("memory at its end", late, "MB")
        yield figure("memory at its end, over that", late / early, "times", "<= 1.05")

    def _happen(self) -> bool:
        """Let one thing happen, and compare; return whether there was something to happen."""
        state = self._store.state
        kind, event = draw(self._chance, state, greedily)
        if event is None:
            self._counts[f"{kind}, no place or nobody there"] += 1
            return False
        before = state.sequence
        try:
            state.apply(event)
            self._counts[kind] += 1
        except InputError:
            self._counts[f"{kind}, refused"] += 1
        if kind == "mistake" and state.sequence != before:
            self._wrong.append(f"{event} was not refused")
        self._wrong += differences(state, rebuilt(state))[:1]
        return True

    def _die(self) -> None:
        """Go on with what is on the disk at this moment, its journal torn perhaps."""
        old, new = self._folder / str(self._lives), self._folder / str(self._lives + 1)
        shutil.copytree(old, new)
        journal = new / "journal.jsonl"
        self._journal = max(self._journal, journal.stat().st_size)
        with journal.open("ab") as stream:
            stream.write(self._chance.choice(_TAILS))
        store = Store(new, longest=_LONGEST)
        self._wrong += differences(self._store.state, store.state)[:1]
        self._counts["reopened from the disk"] += 1
        self._store.__exit__(None, None, None)
        shutil.rmtree(old)
        self._store, self._lives = store, self._lives + 1


def greedily(_: random.Random, state: ClusterState, gang: Gang) -> Reservation | None:
    """Place a gang as a scheduler of pods does."""
    cycle = Cycle(state, gang)
    option = place_greedily(cycle)
    return None if option is None else option.claim


def _kills(folder: Path, kills: int) -> Iterator[Figure]:
    """Kill processes that write, each within a fifth of a second."""
    Store.create(folder, small_cluster()).__exit__(None, None, None)
    known = ClusterState(small_cluster())
    wrong = 0
    for seed in range(kills):
        wrong += bool(kill_a_writer(folder, known, seed, random.Random(seed).uniform(0, 0.2)))
    yield Figure("processes killed while they write", kills, "kills")
    yield Figure("events that they carried out", known.sequence, "events")
    yield Figure("left something else than told", wrong, "kills", "<= 0")
