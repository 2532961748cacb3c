"""PSCP: strictly periodic activities on the processors and networks of cars."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from benchmarks.foreign.dataset import Case, DataSet, read_archive
from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT, Instance, Job, Link, Phase

_LISTS = ("assignmentToResources", "processingTimes", "periods")


class Pscp(DataSet):
    """Each resource is an instance: a link of capacity 1, each activity on it a job of one burst.

    Precedences of activities and deadlines of chains have no counterpart here.
    """

    name = "pscp"
    home_page = "https://github.com/CTU-IIG/PSCP"
    citation = (
        "A. Minaeva, D. Roy, B. Akesson, Z. Hanzalek, S. Chakraborty: Control Performance "
        "Optimization for Application Integration on Automotive Architectures. IEEE Transactions "
        "on Computers, 2021."
    )
    licence = "GPL-3.0"
    default_path = "../shared/data/pscp/instances-even.tar.xz"

    def read(self, path: str | Path) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each file of the archive."""
        return read_archive(path, ".dat")

    def convert(self, name: str, text: str) -> Iterator[Case]:
        """Yield the resources of a file."""
        place, name = PurePosixPath(name), quote(name)
        resources, times, periods = (_numbers(name, text, key) for key in _LISTS)
        if not len(resources) == len(times) == len(periods):
            counts = ", ".join(str(len(each)) for each in (resources, times, periods))
            raise InputError(f"{name}: {', '.join(_LISTS)}: {counts} numbers; must be as many")
        jobs = defaultdict[int, list[Job]](list)
        for index, (resource, slots, period) in enumerate(
            zip(resources, times, periods, strict=True)
        ):
            if slots > period:
                raise InputError(
                    f"{name}: processingTimes[{index}]: {slots} is above the period {period}"
                )
            jobs[resource].append(
                Job(
                    name=str(index + 1),
                    period=period,
                    phases=(Phase(start=0, length=slots, rate=1),),
                    links={str(resource): 1},
                )
            )
        for resource, mine in sorted(jobs.items()):
            instance = Instance(
                name=f"{place.stem}-{resource}",
                slot_ms=1,
                links=(Link(name=str(resource), capacity=1),),
                jobs=tuple(mine),
            )
            yield Case(place.parent.name, place.stem, instance)


def _numbers(name: str, text: str, key: str) -> list[int]:
    """Return the numbers of a list ``key = [1,2,3];``, which are positive."""
    found = re.findall(rf"^{key}\s*=\s*\[([^\[\]]*)\]", text, re.MULTILINE)
    if len(found) != 1:
        raise InputError(f"{name}: {key}: must be one list of numbers, there are {len(found)}")
    numbers = []
    for index, entry in enumerate(found[0].split(",")):
        number = entry.strip()
        if not re.fullmatch(r"[1-9][0-9]{0,6}", number) or int(number) > HYPERPERIOD_LIMIT:
            raise InputError(
                f"{name}: {key}[{index}]: must be an integer from 1 to {HYPERPERIOD_LIMIT}, "
                f"got {quote(number)}"
            )
        numbers.append(int(number))
    return numbers
