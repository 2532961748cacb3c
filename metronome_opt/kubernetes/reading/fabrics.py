"""Fabrics in files of their own: Slurm's topology, models of Topograph, a table of switches."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.documents import read_text
from metronome_opt.kubernetes.reading.fields import Field
from metronome_opt.kubernetes.reading.tree import Way, Wiring
from metronome_opt.scenario.cluster import MAX_NODES

_SLURM = re.compile(r"^[ \t]*(?:SwitchName|BlockName)[ \t]*=", re.IGNORECASE | re.MULTILINE)
_WORDS = {"switchname", "blockname", "nodes", "switches", "linkspeed", "blocksizes"}
_PART = re.compile(r"(?:[^\s,\[\]]|\[[0-9,-]+\])+")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_OF_TOPOGRAPH = {"switches", "blocks", "capacity_blocks"}
_OF_SLURM = {"tree": ("switches", "switch"), "block": ("blocks", "block")}

# Names of columns: of hosts, then of their switches from the lowest tier up.
_COLUMNS = (("ip", "host", "hostname", "node"), ("asw", "leaf"), ("psw", "spine"), ("dsw", "core"))


def read_fabric(path: Path) -> dict[str, Way] | None:
    """Return the ways up of a text file's nodes; None if it is no fabric but documents.

    Raises
    ------
    InputError
        If the file cannot be read, or is not what it seems to be.
    """
    suffix = path.suffix.lower()
    if suffix in {".yaml", ".yml", ".json"} or not path.is_file():
        return None
    text = read_text(path)
    with error_context(path):
        if suffix == ".csv":
            return _read_table(text)
        return _read_slurm(text) if suffix == ".conf" or _SLURM.search(text) else None


def fabric_of(documents: Sequence[tuple[str, Any]]) -> dict[str, Way] | None:
    """Return the ways up of the nodes in documents; None if they are not of a fabric.

    Raises
    ------
    InputError
        If there is a fabric beside anything else, or one that cannot be read.
    """
    models = [Field(each, where) for where, each in documents if _is_model(each)]
    slurm = [Field(each, where) for where, each in documents if _is_slurm(each)]
    if not models and not slurm:
        return None
    if len(documents) > len(models or slurm) or len(models) > 1:
        raise InputError(f"{documents[0][0]}: a fabric beside other documents; read it alone")
    return _of_topograph(models[0]) if models else _of_slurm(slurm)


def _is_model(document: Mapping[str, Any]) -> bool:
    return "kind" not in document and bool(document.keys() & _OF_TOPOGRAPH)


def _is_slurm(document: Mapping[str, Any]) -> bool:
    return not document.keys() & {"kind", *_OF_TOPOGRAPH} and "topology" in document


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
    for each in ranges.split(","):
        found = _RANGE.fullmatch(each)
        first, last = (found[1], found[2] or found[1]) if found else ("1", "0")
        if int(last) < int(first):
            raise InputError(f"{where}: must be a range such as 08-12, got {quote(each)}")
        if len(numbers) + int(last) - int(first) >= MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES} names, got {quote(ranges)}")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers


# ------------------------------------------------------------------ tables


def _read_table(text: str) -> dict[str, Way]:
    rows = csv.reader(io.StringIO(text), strict=True)
    ways: dict[str, Way] = {}
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        host, *tiers = (
            next((header.index(name) for name in names if name in header), None)
            for names in _COLUMNS
        )
        if host is None or tiers == [None] * len(tiers):
            raise InputError(
                "line 1: must name the columns ip and ASW, PSW or DSW, "
                f"got {quote(','.join(header))}"
            )
        for row in filter(None, rows):
            where = f"line {rows.line_num}"
            if len(row) != len(header):
                raise InputError(
                    f"{where}: must have {len(header)} columns as line 1 has, got {len(row)}"
                )
            cells = [cell.strip() for cell in row]
            if not cells[host]:
                raise InputError(f"{where}: {header[host]}: missing; name the host")
            way = tuple(cells[tier] for tier in tiers if tier is not None and cells[tier])
            if ways.setdefault(cells[host], way) != way:
                raise InputError(
                    f"{where}: host {quote(cells[host])} is below other switches in a line "
                    "before; leave one of them out"
                )
            if len(ways) > MAX_NODES:
                raise InputError(f"{where}: more than {MAX_NODES} hosts; divide the fabric")
    except csv.Error as error:
        raise InputError(f"line {rows.line_num}: not a table ({error})") from None
    return ways


# ------------------------------------------------------------------ Slurm


def _read_slurm(text: str) -> dict[str, Way]:
    wiring = Wiring()
    first: dict[str, str] = {}
    for where, line in _lines(text):
        words = {}
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals or not value or name.lower() not in _WORDS:
                raise InputError(
                    f"{where}: must be SwitchName=NAME with Nodes=LIST or Switches=LIST, or "
                    f"BlockName=NAME with Nodes=LIST, got {quote(word)}"
                )
            words[name.lower()] = value.strip('"')
        above = words.get("switchname") or words.get("blockname")
        if above is None and "blocksizes" in words:
            continue
        lists = {name: words[name] for name in ("nodes", "switches") if name in words}
        if above is None or not lists:
            missing = "Nodes or Switches" if above else "SwitchName"
            raise InputError(f"{where}: {missing}: missing, got {quote(line)}")
        if first.setdefault(above, where) != where:
            raise InputError(f"{where}: {quote(above)} is also {first[above]}; join the two")
        wiring.add(where, above, **{name: expand(each, where) for name, each in lists.items()})
    return wiring.ways()


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that say anything, each with its place, those that go on in one piece."""
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


def _of_slurm(topologies: Sequence[Field]) -> dict[str, Way]:
    """Read topology.yaml: the topology that is the default, else the first with switches."""
    described = [each for each in topologies if any(each / kind for kind in _OF_SLURM)]
    if not described:
        topologies[0].fail("must have a tree or blocks; a flat topology names no switches")
    chosen = next((e for e in described if (e / "cluster_default").value is True), described[0])
    wiring = Wiring()
    for kind, (items, name) in _OF_SLURM.items():
        for item in (chosen / kind / items).items():
            above, nodes = (item / name).text(), _names(item / "nodes")
            wiring.add(item.position, above, nodes, _names(item / "children"))
    with error_context(chosen.where):
        return wiring.ways()


# ------------------------------------------------------------------ Topograph


def _of_topograph(model: Field) -> dict[str, Way]:
    """Read a model: switches by name or as a list, and blocks of nodes, which may have a switch."""
    wiring, alone = Wiring(), "\0"
    holds = {name: _held(block) for name, block in _named(model / "capacity_blocks")}
    left = dict(holds)
    for name, switch in _named(model / "switches"):
        for block in _names(switch / "capacity_blocks"):
            if block not in holds:
                (switch / "capacity_blocks").fail(f"there is no block {quote(block)}")
            wiring.add(switch.position, name, holds[block])
            left.pop(block, None)
        wiring.add(switch.position, name, _names(switch / "nodes"), _names(switch / "switches"))
    for item in (model / "blocks").items():
        wiring.add(item.position, (item / "switch").text(alone), _held(item))
    wiring.add(model.where, alone, chain(*left.values()))
    with error_context(model.where):
        return {node: () if way == (alone,) else way for node, way in wiring.ways().items()}


def _held(block: Field) -> list[str]:
    if not block / "nodes":
        (block / "nodes").fail("missing; a block names its nodes")
    return _names(block / "nodes")


def _named(group: Field) -> Iterator[tuple[str, Field]]:
    """Yield the items of a mapping or of a list, each with its name."""
    if isinstance(group.value, list):
        yield from (((each / "name").text(), each) for each in group.items())
    else:
        yield from group.fields()


def _names(field: Field) -> list[str]:
    """Return the names in a list or a text, in Slurm's short form."""
    texts = [field] if isinstance(field.value, str) else field.items()
    return [name for each in texts for name in expand(str(each.value), each.position)]
