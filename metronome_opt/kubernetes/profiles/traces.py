"""Traces of jobs: collectives of ranks, with times and bytes.

Formats are Kineto's JSON, the JSON lines of NCCL's and RCCL's Inspector, and the JSON of Chakra
execution traces, also with gzip, or of several ranks in a tar file. Values of JSON are read one at
a time, and text is taken for Latin-1, one byte for a character, so that memory is bounded.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import tarfile
import zlib
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.scenario.collectives import Kind

MAX_BYTES = 256 * 10**6  # of a file, unpacked, or of a tar file with all that is in it
_MAX_ENTRY = 2**22  # bytes of an event, a node or a line
_GZIP, _TAR, _CHUNK, _HEAD, _BLANK = b"\x1f\x8b", b"ustar", 2**20, 4096, b"\xef\xbb\xbf \t\r\n"
_NAMES = {".json", ".et", ".gz", ".tgz", ".tar"}
_LIBRARY = re.compile("[nrs]ccl", re.IGNORECASE)  # NCCL, RCCL, MSCCL
_LIST = re.compile(r'"(?:traceEvents|nodes)"\s*:\s*\[|^[\sï»¿]*\[')
_WORLD = re.compile(r'"world_size"\s*:\s*"?(\d{1,9})')
_BETWEEN = re.compile(r"[\s,]*")
# Of Chakra: types of nodes that send, and kinds of collectives by their number.
_SENDING = {5: "send", 6: "recv", 7: "collective"}
_KINDS = {0: "allreduce", 2: "allgather", 6: "alltoall", 7: "reducescatter"}
_WIDTHS = {"byte": 1, "char": 1, "unsignedchar": 1, "signedchar": 1, "bool": 1, "half": 2}
_WIDTHS |= {"bfloat16": 2, "short": 2, "float": 4, "int": 4, "double": 8, "long": 8, "longint": 8}
_WIDTHS |= {"float8_e4m3fn": 1, "float8_e5m2": 1}


KINDS: Mapping[str, Kind] = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "send": "point-to-point",
}
"""Kinds of collectives by the letters of their names in traces."""

_Size = tuple[float, float, int | None, float | None]
"""Bytes of a message, bytes that a rank sends for it in a ring, number of the kind, ranks."""


class Collective(NamedTuple):
    """A collective or a send of one rank; bytes are None where its trace has none."""

    start_us: float
    length_us: float
    message_bytes: float | None = None
    sent_bytes: float | None = None  # by this rank, in a ring
    kind: int | None = None  # of `KINDS`
    ranks: float | None = None  # that take part


@dataclass
class Trace:
    """Collectives of one rank, and starts and ends (us) of the steps that are marked."""

    collectives: list[Collective] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)


def holds_trace(path: Path) -> bool:
    """Return whether a file is a trace, rather than the record of a gate or samples."""
    if path.exists() and not path.is_file():
        return False  # a pipe can be read only once
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if path.suffix == ".jsonl":
        return b'"header"' in head
    is_packed = head[:2] == _GZIP or head[257:262] == _TAR
    return path.suffix in _NAMES or is_packed or head.lstrip(_BLANK)[:1] in (b"{", b"[")


def read_traces(path: Path) -> list[Trace]:
    """Read the trace of a rank, or of several, with times of collectives."""
    with error_context(path):
        try:
            with path.open("rb") as stream:
                raw = _unpacked(stream, path.suffix in {".gz", ".tgz"})
            if raw[257:262] != _TAR:
                return _read(raw)
            traces = []
            with tarfile.open(fileobj=io.BytesIO(raw)) as files:
                del raw
                for member in files:
                    stored = files.extractfile(member)
                    if stored is not None:
                        with error_context(member.name):
                            traces += _read(_unpacked(stored, member.name.endswith(".gz")))
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})") from None
        except tarfile.TarError as error:
            raise InputError(f"damaged tar file ({error}); pack it again") from None
        if not traces:
            raise InputError("a tar file without files; pack the traces of all ranks")
        return traces


def _unpacked(stream: Any, packed: bool) -> bytearray:
    """Return the unpacked bytes of a stream, at most `MAX_BYTES`."""
    begin = stream.read(len(_GZIP))
    stream.seek(0)
    if packed and begin != _GZIP:
        raise InputError(f"is no gzip file, it begins with {quote(begin)}; name it otherwise")
    source = gzip.GzipFile(fileobj=stream) if begin == _GZIP else stream
    raw = bytearray()
    try:
        while chunk := source.read(_CHUNK):
            raw += chunk
            if len(raw) > MAX_BYTES:
                raise InputError(f"unpacks to more than {MAX_BYTES:,} bytes; trace fewer steps")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"cut off or damaged gzip after {len(raw):,} bytes ({error})") from None
    return raw


def _read(raw: bytearray) -> list[Trace]:
    """Return the traces in an unpacked file."""
    if bytes(raw[:_HEAD]).lstrip(_BLANK)[:1] not in {b"{", b"["}:
        known, begin = "Kineto, Chakra or an Inspector", quote(raw[:20].decode("latin-1"))
        raise InputError(f"begins with {begin}: not JSON; give a trace of {known}")
    text = raw.decode("latin-1")
    raw.clear()
    world = _WORLD.search(text)
    reader = _Reader(int(world[1]) if world else None)
    _take_values(text, reader)
    return reader.traces()


def _take_values(text: str, reader: _Reader) -> None:
    """Pass the values of a JSON list, or of lines, to a reader."""
    decoder = json.JSONDecoder(strict=False)
    opening = _LIST.search(text)
    at, count = opening.end() if opening else text.index("{"), 0
    part, begin = "", 0
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text[at : at + 1] == ("]" if opening else ""):
            return
        try:
            try:
                value, end = decoder.raw_decode(part, at - begin)
            except (ValueError, IndexError):  # the value ends in the next part, or nowhere
                part, begin = text[at : at + _MAX_ENTRY], at
                value, end = decoder.raw_decode(part)
            reader.take(value)
        except (ValueError, RecursionError) as error:
            if not opening and count and text.find("\n", at) < 0:
                return  # the job was killed while it wrote a line
            what = str(error) if isinstance(error, InputError) else "cut off, too long, or not JSON"
            line = text.count("\n", 0, at) + 1
            raise InputError(f"line {line}, entry {count}: {what}; trace again") from None
        at, count = begin + end, count + 1


# ------------------------------------------------------------------ entries


class _Reader:
    """Collects the entries of any format; unknown entries are skipped."""

    def __init__(self, world: int | None) -> None:
        self._world = world  # number of ranks
        self._ranks: dict[str, Trace] = {}
        self._untimed: dict[str, list[tuple[int, float]]] = {}  # index, when it was over at last
        self._members: dict[str, Any] = {}  # rank in a communicator of a process
        self._context: dict[str, Any] = {}
        self._kernels: list[tuple[str, Collective]] = []  # with the correlation to their launch
        self._launches: dict[str, tuple[str, float]] = {}  # thread and time
        self._calls: dict[str, list[tuple[float, float, _Size]]] = {}
        self._plain = 0  # collectives without times

    def take(self, value: Any) -> None:
        """Take an event of Kineto, a node of Chakra or a line of an Inspector."""
        if not isinstance(value, dict):
            raise InputError(f"must be a mapping, got {quote(value)}")
        if "ph" in value:
            self._event(value)
        elif "name" in value and "id" in value:
            self._node(value)
        else:
            self._line(value)

    def traces(self) -> list[Trace]:
        """Return the traces of all ranks."""
        for calls in self._calls.values():
            calls.sort()
        for correlation, kernel in self._kernels:
            # Without a size of its own, that of the innermost call around its launch.
            thread, at = self._launches.get(correlation, ("", 0.0))
            calls = self._calls.get(thread, [])
            index = bisect(calls, at, key=lambda call: call[0]) - 1
            if kernel.message_bytes is None and index >= 0 and at <= calls[index][1]:
                kernel = Collective(kernel.start_us, kernel.length_us, *calls[index][2])
            self._rank().collectives.append(kernel)
        for key, ends in self._untimed.items():
            following, collectives = math.inf, self._ranks[key].collectives
            for index, end in reversed(ends):
                following = min(end, following) - collectives[index].length_us
                collectives[index] = collectives[index]._replace(start_us=following)
        ranks = [trace for trace in self._ranks.values() if trace.collectives]
        if self._plain and not ranks:
            remedy = "give the Kineto trace of the same run, or link the two"
            raise InputError(f"{self._plain} collectives without times; {remedy}")
        if not ranks:
            raise InputError("holds no collectives, such as NCCL's kernels; trace several ranks")
        return ranks

    def _rank(self, key: str = "") -> Trace:
        return self._ranks.setdefault(key, Trace())

    def _event(self, event: Mapping[str, Any]) -> None:
        """Take an event of Kineto."""
        if event["ph"] != "X":
            return
        name, kind = str(event.get("name")), str(event.get("cat")).lower()
        args = _mapping(event.get("args"))
        if kind == "kernel" and _LIBRARY.search(name):
            start, end = _span(event)
            kernel = Collective(start, end - start, *(_size(args, name, self._world) or ()))
            self._kernels.append((str(args.get("correlation")), kernel))
        elif "gpu" in kind:
            return
        elif name.startswith("ProfilerStep"):
            self._rank().steps.append(_span(event))
        elif "launch" in name.lower() and "correlation" in args:
            launch = str(event.get("tid")), _number(event, "ts")
            self._launches[str(args["correlation"])] = launch
        elif "comms" in name or _LIBRARY.search(name):
            called = _size(args, name, self._world) or _shaped(args, name, self._world)
            if called is not None:
                self._calls.setdefault(str(event.get("tid")), []).append((*_span(event), called))

    def _node(self, node: Mapping[str, Any]) -> None:
        """Take a node of Chakra; PyTorch's own nodes have no times until a trace is linked.

        Nodes on the CPU only launch the nodes that send.
        """
        name, kind = str(node["name"]), node.get("type")
        kind = kind if isinstance(kind, int) else None
        pairs = _mappings(node.get("attrs"))
        attributes = {str(pair.get("name")): pair.get("value") for pair in pairs}
        if name.startswith("ProfilerStep"):
            if node.get("ts"):
                self._rank().steps.append(_span(node))
        elif name == "record_param_comms" if kind is None else kind in _SENDING:
            size = _size(attributes, _SENDING.get(kind or 0, name), self._world)
            if node.get("ts") and not attributes.get("is_cpu_op"):
                start, end = _span(node)
                self._rank().collectives.append(Collective(start, end - start, *(size or ())))
            elif size is not None:
                self._plain += 1

    def _line(self, line: Mapping[str, Any]) -> None:
        """Take a line of an Inspector; a line without a header belongs to the last header."""
        self._context.update({key: line[key] for key in ("header", "metadata") if key in line})
        for kind in ("coll", "p2p"):
            performed = line.get(f"{kind}_perf")
            if performed is None:
                continue
            header, metadata = (_mapping(self._context.get(key)) for key in ("header", "metadata"))
            if not (_mapping(performed) and header and metadata):
                raise InputError(f"{kind}_perf: must be a mapping, with a header and metadata")
            process = f"{metadata.get('hostname')} {metadata.get('pid')}"
            member = self._members.setdefault(f"{process} {header.get('id')}", header.get("rank"))
            if header.get("rank") != member:
                continue  # the first GPU of a process stands for all of them
            name, ranks = str(performed.get(kind)), header.get("n_ranks")
            sent = _number(performed, f"{kind}_msg_size_bytes")
            if _letters(name) in {"allgather", "reducescatter"}:  # a rank's part of the message
                sent *= _number(header, "n_ranks")
            length = _number(performed, f"{kind}_exec_time_us")
            collectives = self._rank(process).collectives
            start = _traced(performed.get("event_trace_ts", line.get("event_trace_ts")), kind)
            if start is None:
                end = _number(metadata, "dump_timestamp_us")
                self._untimed.setdefault(process, []).append((len(collectives), end))
            collectives.append(Collective(start or 0.0, length, *_sized(sent, name, ranks)))


def _traced(events: Any, kind: str) -> float | None:
    """Return the start of a collective by the trace of its events, None without one."""
    events, asked = _mapping(events), f"{kind}_start_ts"
    kernels, begun = _mappings(events.get("kernel_events")), "kernel_start_ts"
    begins = [_number(kernel, begun) for kernel in kernels if kernel.get(begun)]
    return min(begins) if begins else _number(events, asked) if events.get(asked) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return list(map(_mapping, values)) if isinstance(values, list) else []


def _number(values: Mapping[str, Any], key: str) -> float:
    """Return a number that is not negative; some tools write numbers as text."""
    value = values.get(key)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < 1e18:
        raise InputError(f"{key}: {quote(value)}: must be a number that is not negative")
    return number


def _span(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return start and end."""
    start = _number(event, "ts")
    return start, start + _number(event, "dur")


def _letters(name: str) -> str:
    return re.sub("[^a-z]", "", name.lower())


def _sized(message: float, name: str, ranks: Any) -> _Size:
    """Return the size of a collective by its message, name and ranks."""
    letters = _letters(name)
    count = None if ranks is None else max(1.0, _number({"ranks": ranks}, "ranks"))
    passed = 1.0 if count is None else 1 - 1 / count
    kind = next((number for number, word in enumerate(KINDS) if word in letters), None)
    sent = message
    if "allreduce" in letters and count is not None:
        sent = 2 * passed * message
    elif any(word in letters for word in ("allgather", "reducescatter", "alltoall")):
        sent = passed * message
    elif "recv" in letters and "send" not in letters:
        sent = 0.0
    return message, sent, kind, count


def _size(args: Mapping[str, Any], name: str, world: int | None) -> _Size | None:
    """Return the size of a collective by arguments of PyTorch or Chakra."""
    if "comm_size" in args:
        kind = args.get("comm_type")
        name = _KINDS.get(kind, "") if isinstance(kind, int) else name
        return _sized(_number(args, "comm_size"), name, args.get("pg_size", world))
    stated = {_letters(key): value for key, value in args.items()}
    width = _WIDTHS.get(str(stated.get("dtype")).lower())
    if width is None or "inmsgnelems" not in stated or stated.get("collectivename") == "wait":
        return None
    count = max(_number({"outmsgnelems": 0, **stated}, f"{way}msgnelems") for way in ("in", "out"))
    ranks = stated.get("groupsize", stated.get("pgsize", world))
    return _sized(count * width, str(stated.get("collectivename") or name), ranks)


def _shaped(args: Mapping[str, Any], name: str, world: int | None) -> _Size | None:
    """Return the size of a collective by the shapes of its inputs, as in older traces."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return None
    total = 0
    for shape, kind in zip(shapes, types, strict=False):
        width = _WIDTHS.get(str(kind).replace("c10::", "").replace(" ", "").lower())
        if shape and width and all(isinstance(length, int) for length in shape):
            total += width * math.prod(shape)
    if "allgather" in _letters(name):
        total *= world or 1
    return _sized(_number({"Input Dims": total}, "Input Dims"), name, world) if total else None
