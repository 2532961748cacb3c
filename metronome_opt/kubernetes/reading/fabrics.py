"""Fabrics in text files of their own: Slurm's topology, and tables of switches."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import read_text
from metronome_opt.kubernetes.reading.tree import UplinkPath, Wiring
from metronome_opt.scenario.cluster import MAX_NODES

_SLURM = re.compile(r"^[ \t]*(?:SwitchName|BlockName)[ \t]*=", re.IGNORECASE | re.MULTILINE)
_LISTS = {"nodes": "node", "switches": "switch"}  # kinds by the names of their lists
_READ = {"switchname", "blockname", "level", *_LISTS}
_PASSED = {"linkspeed", "blocksizes", "blocksize", "blockindex", "aggregatedblock"}
_OVER_BLOCKS = {"blocksizes", "aggregatedblock"}  # say where jobs go, not what links there are
_PART = re.compile(r"(?:[^\s,\[\]]|\[[0-9,-]+\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")

# Names of columns: of hosts, then of their switches from the lowest tier up.
_COLUMNS = (("ip", "host", "hostname", "node"), ("asw", "leaf"), ("psw", "spine"), ("dsw", "core"))


class Fabric(NamedTuple):
    """The path up from each node, and whether nodes are connected above the topmost switches."""

    uplink_paths: Mapping[str, UplinkPath]
    has_core: bool = True


def read_fabric(path: Path) -> Fabric | None:
    """Return the fabric in a text file; None if it is none but manifests."""
    suffix = path.suffix.lower()
    if suffix in {".yaml", ".yml", ".json"} or not path.is_file():
        return None
    text = read_text(path)
    with error_context(path):
        if suffix == ".csv":
            return _read_table(text)
        return _read_slurm(text) if suffix == ".conf" or _SLURM.search(text) else None


# ------------------------------------------------------------------ tables


def _read_table(text: str) -> Fabric:
    rows = csv.reader(text.splitlines(), strict=True)
    uplink_paths: dict[str, UplinkPath] = {}
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        host, *tiers = (
            next((header.index(name) for name in names if name in header), None)
            for names in _COLUMNS
        )
        if host is None or tiers == [None] * len(tiers):
            got = quote(",".join(header))
            raise InputError(f"line 1: must name the columns ip and ASW, PSW or DSW, got {got}")
        for row in filter(None, rows):
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise InputError(f"{where}: must have {len(header)} columns, got {len(row)}")
            cells = [cell.strip() for cell in row]
            if not cells[host]:
                raise InputError(f"{where}: {header[host]}: missing; name the host")
            uplink_path = tuple(cells[tier] for tier in tiers if tier is not None and cells[tier])
            if uplink_paths.setdefault(cells[host], uplink_path) != uplink_path:
                name = quote(cells[host])
                raise InputError(f"{where}: host {name} is below others before; remove one line")
            if len(uplink_paths) > MAX_NODES:
                raise InputError(f"{where}: more than {MAX_NODES} hosts; divide the fabric")
    except csv.Error as error:
        raise InputError(f"line {rows.line_num}: not a table ({error})") from None
    return Fabric(uplink_paths)


# ------------------------------------------------------------------ Slurm


def _read_slurm(text: str) -> Fabric:
    """Read topology.conf, or what ``scontrol show topology`` prints.

    Slurm places no job on switches without a common one above them; blocks are connected.
    """
    wiring = Wiring()
    has_core = False
    first: dict[str, str] = {}
    for where, line in _lines(text):
        words = {}
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals or not value or name.lower() not in _READ | _PASSED:
                must = "SwitchName=NAME or BlockName=NAME with Nodes=LIST or Switches=LIST"
                raise InputError(f"{where}: must be {must}, got {quote(word)}")
            words[name.lower()] = value.strip('"')
        above = words.get("switchname") or words.get("blockname")
        if above is None and _OVER_BLOCKS & words.keys():
            continue
        has_core |= "blockname" in words
        if "level" in words and "switches" in words:
            words.pop("nodes", None)  # scontrol lists those of the switches below once more
        lists = {kind: words[name] for name, kind in _LISTS.items() if name in words}
        if above is None or not lists:
            missing = "Nodes or Switches" if above else "SwitchName"
            raise InputError(f"{where}: {missing}: missing, got {quote(line)}")
        if first.setdefault(above, where) != where:
            raise InputError(f"{where}: {quote(above)} is also {first[above]}; join the two")
        for kind, names in lists.items():
            wiring.add(where, above, kind, expand(names, where))
    uplink_paths = wiring.uplink_paths()
    return Fabric(
        uplink_paths,
        has_core or len({uplink_path[-1] for uplink_path in uplink_paths.values()}) < 2,
    )


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that say anything, with their locations; continued ones in one piece."""
    begun: list[str] = []
    first = 1
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.partition("#")[0].rstrip()
        first = first if begun else number
        begun.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            whole = re.sub(r",\s+", ",", "".join(begun)).strip()
            if whole:
                yield f"line {first}", whole
            begun = []
    if begun:
        raise InputError(f"line {first}: ends in a backslash, and no line follows; is it cut off?")


def expand(text: str, where: str) -> list[str]:
    """Return the names that Slurm's short form stands for: ``n[08-10],m1`` is n08, n09, n10, m1."""
    parts = _PART.findall(text)
    if not parts or ",".join(parts) != text:
        raise InputError(f"{where}: must be names such as n[1-4,7],m1, got {quote(text)}")
    names: list[str] = []
    for part in parts:
        choices: list[Sequence[str]] = []
        for index, piece in enumerate(re.split(r"[\[\]]", part)):
            choices.append(_numbers(piece, where) if index % 2 else [piece])
        if len(names) + prod(map(len, choices)) > MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES} names, got {quote(part)}")
        names += map("".join, product(*choices))
    return names


def _numbers(ranges: str, where: str) -> list[str]:
    numbers: list[str] = []
    for text in ranges.split(","):
        found = _RANGE.fullmatch(text)
        first, last = (found[1], found[2] or found[1]) if found else ("1", "0")
        if int(last) < int(first):
            raise InputError(f"{where}: must be a range such as 08-12, got {quote(text)}")
        if len(numbers) + int(last) - int(first) >= MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES} names, got {quote(ranges)}")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
