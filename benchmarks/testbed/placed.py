"""Four jobs whose places are chosen: ``python -m benchmarks.testbed.placed`` writes the cases.

Each of four racks has room for two ranks, and each job has two ranks in different racks. So jobs
meet two by two, on both uplinks, or in a ring of four: six ways up to the names of racks. Draws of
jobs are kept that fit where they are without contention, and not where a scheduler that spreads
ranks puts them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import yaml

from benchmarks.testbed.cases import FORMAT, BedJob, Case
from metronome_opt.compatible import decide

FILE = Path(__file__).with_name("placed.yaml")

Racks = Mapping[str, tuple[int, int]]

WAYS: tuple[Racks, ...] = tuple(
    dict(zip(names, places, strict=True))
    for names in ("acbd", "abdc", "adcb")
    for places in (((0, 1), (0, 1), (2, 3), (2, 3)), ((0, 1), (1, 2), (2, 3), (0, 3)))
)
"""The racks of each job. In the first, each job is where most is free when it comes."""

_DRAWS = 3
_PERIODS, _SHARES = (300, 400, 600), (0.3, 0.4, 0.5, 0.6)


def cases() -> Iterator[Case]:
    """Yield three draws of jobs, where they are spread and where they fit."""
    found = 0
    for seed in count():
        draw = random.Random(seed)
        periods = [draw.choice(_PERIODS) for _ in range(4)]
        jobs = [BedJob(period=p, bursts=((0, round(p * draw.choice(_SHARES))),)) for p in periods]
        made = [_case(f"draw-{found}", jobs, way) for way in WAYS]
        fitting = [case for case in made if decide(case.instance()).offsets is not None]
        if not fitting or made[0] in fitting:
            continue
        for name, case in (("spread", made[0]), ("chosen", fitting[0])):
            yield case.model_copy(update={"name": f"{case.name}-{name}"})
        found += 1
        if found == _DRAWS:
            return


def _case(name: str, jobs: list[BedJob], way: Racks) -> Case:
    placed = tuple(
        job.model_copy(update={"racks": way[who]}) for who, job in zip("abcd", jobs, strict=True)
    )
    return Case(name=name, split="test", network="four-racks", jobs=placed)


def main() -> None:
    """Write the cases."""
    made = [case.model_dump(mode="json", exclude_defaults=True) for case in cases()]
    head = f"# Written by `python -m benchmarks.testbed.placed`.\nformat: {FORMAT}\n"
    FILE.write_text(
        head + yaml.safe_dump({"cases": made}, sort_keys=False, default_flow_style=None)
    )


if __name__ == "__main__":
    main()
