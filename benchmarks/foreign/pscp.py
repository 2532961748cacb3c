"""PSCP: strictly periodic activities on the processors and networks of cars.

A. Minaeva, D. Roy, B. Akesson, Z. Hanzalek, S. Chakraborty: Control Performance Optimization for
Application Integration on Automotive Architectures. IEEE Transactions on Computers, 2021. The
archive, under GPL-3.0, is read where it lies, and is no part of this project.
"""

from __future__ import annotations

import lzma
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT, Instance, Job, Link, Phase

HOME_PAGE = "https://github.com/CTU-IIG/PSCP"
ARCHIVE = "../shared/data/pscp/instances-even.tar.xz"

_LISTS = ("assignmentToResources", "processingTimes", "periods")
_MAX_MEMBER = 8 * 2**20
_MAX_ARCHIVE = 2**30  # bytes in all, unpacked
_BROKEN = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error)


class Case(NamedTuple):
    """An instance, and the group of the data set that it belongs to."""

    group: str
    instance: Instance


def read_cases(path: str | Path) -> Iterator[Case]:
    """Yield the resources of all files of the archive, with one file in memory at a time.

    Raises
    ------
    InputError
        If it is no archive, is cut off, or unpacks to more than there should be.
    """
    for name, text in _read_archive(path):
        yield from make_cases(name, text)


def make_cases(name: str, text: str) -> Iterator[Case]:
    """Yield the resources of a file: links of capacity 1, whose activities are jobs of one burst.

    Precedences of activities and deadlines of chains have no counterpart here.
    """
    place, name = PurePosixPath(name), quote(name)
    resources, times, periods = (_numbers(name, text, key) for key in _LISTS)
    if not len(resources) == len(times) == len(periods):
        counts = ", ".join(str(len(each)) for each in (resources, times, periods))
        raise InputError(f"{name}: {', '.join(_LISTS)}: {counts} numbers; must be as many")
    jobs = defaultdict[int, list[Job]](list)
    for index, (resource, slots, period) in enumerate(zip(resources, times, periods, strict=True)):
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
        yield Case(place.parent.name, instance)


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


def _read_archive(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the data files in a tar archive."""
    total, number = 0, 0
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                total += member.size
                if member.size > _MAX_MEMBER or total > _MAX_ARCHIVE:
                    raise InputError(f"{path}: {quote(member.name)}: unpacks to too many bytes")
                wanted = member.isfile() and member.name.endswith(".dat")
                file = archive.extractfile(member) if wanted else None
                if file is not None:
                    number += 1
                    yield member.name, file.read().decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: file {number}: is no text") from None
    except _BROKEN as error:
        raise InputError(f"{path}: no whole archive: {error or type(error).__name__}") from None
    if not number:
        raise InputError(f"{path}: has no file .dat")
