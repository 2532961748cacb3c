"""Messages of collectives as traces state them: bytes, kinds and numbers of ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.collectives import Kind

KINDS: Mapping[str, Kind] = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "send": "point-to-point",
}
"""Kinds of collectives by the letters of their names in traces."""

_MAX_DIMENSIONS = 64  # of a tensor
_MAX_TEXT = 4096
_CHAKRA_KINDS = {"0": "allreduce", "2": "allgather", "6": "alltoall", "7": "reducescatter"}
_WIDTHS = {"byte": 1, "char": 1, "unsignedchar": 1, "signedchar": 1, "bool": 1, "half": 2}
_WIDTHS |= {"bfloat16": 2, "short": 2, "float": 4, "int": 4, "double": 8, "long": 8, "longint": 8}
_WIDTHS |= {"float8_e4m3fn": 1, "float8_e5m2": 1}


class Message(NamedTuple):
    """Bytes of a collective by the letters of its name, and its ranks, None where not stated.

    Bytes are of the whole message, or of the share of a rank.
    """

    size: float
    letters: str
    ranks: float | None
    is_share: bool = False

    def measure(self, world: float | None) -> tuple[float, float, int | None, float | None]:
        """Return bytes of the message, bytes that a rank sends in a ring, kind and ranks.

        The kind is a number of `KINDS`; ranks are `world` where they are not stated.
        """
        ranks = world if self.ranks is None else self.ranks
        size = self.size * (ranks or 1 if self.is_share else 1)
        passed = 1 - 1 / ranks if ranks else 1.0
        kind = next((number for number, word in enumerate(KINDS) if word in self.letters), None)
        sent = size
        if "allreduce" in self.letters and ranks:
            sent = 2 * passed * size
        elif any(word in self.letters for word in ("allgather", "reducescatter", "alltoall")):
            sent = passed * size
        elif "recv" in self.letters and "send" not in self.letters:
            sent = 0.0
        return size, sent, kind, ranks


def state_message(size: float, name: str, ranks: Any, *, is_share: bool = False) -> Message:
    """Return a message of a collective of a name."""
    count = None if ranks is None else max(1.0, read_number({"ranks": ranks}, "ranks"))
    return Message(size, keep_letters(name[:_MAX_TEXT]), count, is_share)


def read_message(args: Mapping[str, Any], name: str) -> Message | None:
    """Return the message that arguments of PyTorch or Chakra state."""
    if "comm_size" in args:
        kind = _CHAKRA_KINDS.get(str(args["comm_type"])[:2], "") if "comm_type" in args else name
        return state_message(read_number(args, "comm_size"), kind, args.get("pg_size"))
    stated = {keep_letters(key[:_MAX_TEXT]): value for key, value in args.items()}
    width = _WIDTHS.get(str(stated.get("dtype")).lower())
    if width is None or "inmsgnelems" not in stated or stated.get("collectivename") == "wait":
        return None
    sizes = {"outmsgnelems": 0, **stated}
    count = max(read_number(sizes, f"{way}msgnelems") for way in ("in", "out"))
    called = str(stated.get("collectivename") or name)
    return state_message(count * width, called, stated.get("groupsize", stated.get("pgsize")))


def read_tensors(args: Mapping[str, Any], name: str) -> Message | None:
    """Return the message that the shapes of inputs state, as in older traces."""
    size = measure_tensors(args.get("Input Dims"), args.get("Input type"))
    is_share = "allgather" in keep_letters(name[:_MAX_TEXT])
    return state_message(size, name, None, is_share=is_share) if size else None


def measure_tensors(shapes: Any, types: Any) -> float:
    """Return the bytes of tensors by their shapes and types; 0 where they are not known."""
    total = 0.0
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return 0.0
    for shape, kind in zip(shapes, types, strict=False):
        width = _WIDTHS.get(str(kind)[:_MAX_TEXT].replace("c10::", "").replace(" ", "").lower())
        if width and isinstance(shape, list) and 0 < len(shape) <= _MAX_DIMENSIONS:
            lengths = [{"shape": length} for length in shape]
            if all(isinstance(length["shape"], int) for length in lengths):
                total += width * math.prod(read_number(length, "shape") for length in lengths)
    return read_number({"shape": total}, "shape")


def read_number(values: Mapping[str, Any], key: str, limit: float = 1e18) -> float:
    """Return a number from 0 to a limit; some tools write numbers as text."""
    value = values.get(key)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < limit:
        raise InputError(f"{key}: {quote(value)}: must be a number from 0 to {limit:.0e}")
    return number


@lru_cache(2**12)
def keep_letters(name: str) -> str:
    """Return the letters of a name in lower case."""
    return re.sub("[^a-z]", "", name.lower())
