"""Traces of jobs: collectives of ranks, with times and bytes.

Formats are events in JSON, as of Kineto and XLA, the JSON of PyTorch's flight recorder and of
Chakra execution traces, and the JSON lines of NCCL's and RCCL's Inspector, also with gzip, or of
several ranks in a tar file.

Values of JSON are read one at a time, and text is taken for Latin-1, one byte
for a character, so that memory is bounded.
"""

from __future__ import annotations

import gc
import gzip
import json
import math
import re
import tarfile
import warnings
import zlib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from metronome_opt.errors import InputError, error_context, first_few, quote
from metronome_opt.kubernetes.profiles.profile import open_file
from metronome_opt.scenario.collectives import Kind

LIMITS = {"bytes": 256 * 10**6, "entries": 2**21, "events of collectives": 2**19, "members": 2**13}
"""Limits of a file, unpacked, and of all members of a tar file together."""

_MAX_ENTRY = 2**22  # bytes of an event, a node or a line
_MAX_DIMENSIONS = 64  # of a tensor
_WAYS, _TIMES = ("input", "output"), ("started", "completed")  # of a flight recorder
_MAX_SHOWN = 8  # members of a tar file that are left out
_GZIP, _TAR, _CHUNK, _HEAD, _BLANK = b"\x1f\x8b", b"ustar", 2**20, 4096, b"\xef\xbb\xbf \t\r\n"
_NAMES = {".json", ".et", ".gz", ".tgz", ".tar", ".pb"}
_BINARY = {
    b"\x80": "a pickle; have a flight recorder dump JSON",
    b"SQLite format 3": "an SQLite database",
    b"PK\x03\x04": "a zip file; unpack it",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"BZh": "packed by bzip2; unpack it",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it",
}
_KNOWN = "Kineto, XLA (trace.json.gz), Chakra, an Inspector, or a flight recorder"
_LIBRARY = re.compile("[nrs]ccl", re.IGNORECASE)  # NCCL, RCCL, MSCCL
_HOST = re.compile("(?!.*[gt]pu).*(host|cpu|python)", re.IGNORECASE)  # names of processes
_LISTS = ("traceEvents", "nodes", "workload_graph", "entries")
_WORLD = re.compile(r'"world_size"\s*:\s*"?(\d{1,9})')
_BETWEEN = re.compile(r"[\s,:ï»¿]*")
_DECODER = json.JSONDecoder(strict=False)
# Of Chakra: types of nodes that send, and kinds of collectives by their number.
_SENDING: dict[Any, str] = {5: "send", 6: "recv", 7: "collective"}
_SENDING |= {"COMM_SEND_NODE": "send", "COMM_RECV_NODE": "recv", "COMM_COLL_NODE": "collective"}
_KINDS = {"0": "allreduce", "2": "allgather", "6": "alltoall", "7": "reducescatter"}
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
    """Collectives of one rank, and starts and ends (us) of the steps that are marked.

    `steps` are marked by the CPU; `gpu_steps` are when the GPU ran what the CPU launched in them.
    Notes say what was left out, or is not exact.
    """

    collectives: list[Collective] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    gpu_steps: list[tuple[float, float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def holds_trace(path: Path) -> bool:
    """Return whether a file is a trace, rather than the record of a gate or samples."""
    with open_file(path) as stream:
        head = stream.read(_HEAD)
    if path.suffix == ".jsonl":
        return b'"header"' in head
    is_packed = head[:2] == _GZIP or head[257:262] == _TAR or head.startswith(tuple(_BINARY))
    return path.suffix in _NAMES or is_packed or head.lstrip(_BLANK)[:1] in (b"{", b"[")


def read_traces(path: Path, kernels: str | None = None) -> list[Trace]:
    """Read the trace of a rank, or of several, with times of collectives.

    Parameters
    ----------
    path
        A file; members of a tar file that are no traces are left out, with a note.
    kernels
        Regular expression that the names of kernels of collectives contain; None for those of
        NCCL, RCCL and MSCCL.
    """
    pattern, budget = _compile(kernels), _Budget()
    with open_file(path) as stream, error_context(path), _no_collection():
        source = _Source(stream, path.name, _Budget())
        try:
            if source.head[257:262] != _TAR:
                return _read(source, pattern, budget)
            with tarfile.open(fileobj=cast("Any", source), mode="r|") as files:
                traces, faults = _read_members(files, pattern, budget)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})") from None
        except tarfile.TarError as error:
            raise InputError(f"damaged tar file ({error}); pack it again") from None
        if not traces:
            fault = faults[0] if faults else "it has no files; pack the traces of all ranks"
            raise InputError(f"a tar file without traces: {fault}")
        traces[0].notes += [f"left out: {fault}" for fault in faults[:_MAX_SHOWN]]
        if len(faults) > _MAX_SHOWN:
            traces[0].notes.append(f"left out: {len(faults) - _MAX_SHOWN:,} more members")
        return traces


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage, which takes most of the time where values are many and have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read_members(
    files: tarfile.TarFile, pattern: re.Pattern[str], budget: _Budget
) -> tuple[list[Trace], list[str]]:
    """Return the traces in a tar file, and why members hold none."""
    traces, faults = [], []
    for member in files:
        files.members.clear()  # type: ignore[attr-defined]  # of all that were read
        budget.take("members")
        try:
            with error_context(quote(member.name)[1:-1]):
                if member.isreg() and not member.issparse():
                    stored = _Source(files.extractfile(member), member.name, budget)
                    traces += _read(stored, pattern, budget)
                elif not member.isdir():
                    raise InputError("a link or a device, not a file")
        except InputError as error:
            if budget.is_spent:
                raise
            faults.append(str(error))
    return traces, faults


def _compile(kernels: str | None) -> re.Pattern[str]:
    if kernels is None:
        return _LIBRARY
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(kernels)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        fault = f"no regular expression ({error}); escape what is not meant as one"
        raise InputError(f"--kernels: {quote(kernels)}: {fault}") from None


class _Budget(Counter[str]):
    """What was read of a file, by the units of `LIMITS`."""

    def take(self, unit: str, count: int = 1) -> None:
        """Count what is read, up to a limit."""
        self[unit] += count
        if self[unit] > LIMITS[unit]:
            raise InputError(f"unpacks to more than {LIMITS[unit]:,} {unit}; trace fewer steps")

    @property
    def is_spent(self) -> bool:
        """Whether a limit was reached."""
        return any(self[unit] > limit for unit, limit in LIMITS.items())


class _Source:
    """The bytes of a file, without gzip."""

    def __init__(self, stream: Any, name: str, budget: _Budget) -> None:
        begin = stream.peek(len(_GZIP))[: len(_GZIP)]
        if name.endswith((".gz", ".tgz")) and begin != _GZIP:
            raise InputError(f"is no gzip file, it begins with {quote(begin)}; name it otherwise")
        self._stream = gzip.GzipFile(fileobj=stream) if begin == _GZIP else stream
        self._budget, self._count = budget, 0
        self.head = self._unpacked(self._stream.peek, _HEAD)[:_HEAD]

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        piece = self._unpacked(self._stream.read, size)
        self._count += len(piece)
        self._budget.take("bytes", len(piece))
        return piece

    def _unpacked(self, method: Callable[[int], bytes], size: int) -> bytes:
        try:
            return method(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            fault = f"cut off or damaged gzip after {self._count:,} bytes ({error})"
            raise InputError(fault) from None


def _read(source: _Source, pattern: re.Pattern[str], budget: _Budget) -> list[Trace]:
    """Return the traces in an unpacked file."""
    head = source.head
    for begin, what in _BINARY.items():
        if head.startswith(begin):
            raise InputError(f"is {what}; give a trace of {_KNOWN}")
    if head.lstrip(_BLANK)[:1] not in {b"{", b"["}:
        begins = quote(head[:20].decode("latin-1"))
        raise InputError(f"begins with {begins}: not JSON; give a trace of {_KNOWN}")
    raw = bytearray()
    while chunk := source.read(_CHUNK):
        raw += chunk
    text = raw.decode("latin-1")
    del raw
    world = _WORLD.search(text)
    reader = _Reader(pattern, int(world[1]) if world else None, budget)
    _Document(text, budget).pass_to(reader)
    return reader.traces()


class _Document:
    """A JSON document of entries, or lines of JSON, read from its beginning to its end."""

    def __init__(self, text: str, budget: _Budget) -> None:
        self._budget = budget
        self._text, self._at, self._start, self._count = text, 0, 0, 0
        self._part, self._begin = "", 0  # of the text, and where it begins

    def pass_to(self, reader: _Reader) -> None:
        """Pass entries of known lists, or lines, to a reader."""
        lines = 0
        while letter := self._letter():
            begin, self._count = self._at, lines
            try:
                if letter == "{":
                    lines += self._mapping(reader)
                else:
                    self._list(reader.take)
            except (ValueError, RecursionError) as error:
                is_last = lines and self._text.find("\n", begin) < 0
                if is_last and not self._budget.is_spent:
                    return  # the job was killed while it wrote a line
                known = isinstance(error, InputError)
                what = str(error) if known else "cut off, too long, or not JSON; trace again"
                line = self._text.count("\n", 0, self._start) + 1
                raise InputError(f"line {line}, entry {self._count}: {what}") from None

    def _letter(self) -> str:
        """Return the letter at which the next value begins, or a list or mapping ends."""
        between = _BETWEEN.match(self._text, self._at)
        self._at = between.end() if between else self._at
        return self._text[self._at : self._at + 1]

    def _value(self) -> Any:
        """Return the value that begins here."""
        self._start, end = self._at, -1
        with suppress(ValueError, IndexError):  # it ends in the next part, or nowhere
            value, end = _DECODER.raw_decode(self._part, self._at - self._begin)
        if not 0 <= end < len(self._part):
            self._part, self._begin = self._text[self._at : self._at + _MAX_ENTRY], self._at
            value, end = _DECODER.raw_decode(self._part)
        self._at = self._begin + end
        return value

    def _list(self, take: Callable[[Any], None] | None) -> None:
        """Pass the values of a list."""
        if self._letter() != "[":
            raise ValueError
        self._at, self._count = self._at + 1, 0
        while self._letter() != "]":
            value = self._value()
            self._budget.take("entries")
            if take is not None:
                take(value)
            self._count += 1
        self._at += 1

    def _mapping(self, reader: _Reader) -> bool:
        """Pass the lists of a mapping, else the mapping as a line; return whether it is one."""
        fields: dict[str, Any] = {}
        is_line, begin, count = True, self._at, self._count
        self._at += 1
        while self._letter() != "}":
            key = self._value()
            self._budget.take("entries")
            if not isinstance(key, str):
                self._start = begin
                raise ValueError
            if key in _LISTS and self._letter() == "[":
                is_line, fields[key] = False, None
                self._list(reader.take)
            else:
                fields[key] = self._field()
        self._at += 1
        reader.fields = fields
        if is_line:
            self._start, self._count = begin, count
            reader.take(fields)
        return is_line

    def _field(self) -> Any:
        """Return the value that begins here; of a list that is too long, nothing."""
        if self._letter() == "[":
            at = self._at
            try:
                return self._value()
            except ValueError:
                self._at = at
                self._list(None)
                return None
        return self._value()


# ------------------------------------------------------------------ entries

_Finish = Callable[[float], None] | None
"""Function of the time at which an event ends; None for an event that is skipped."""


class _Reader:
    """Collects the entries of any format; unknown entries are skipped.

    Attributes
    ----------
    fields
        What the document has beside its entries.
    """

    def __init__(self, pattern: re.Pattern[str], world: int | None, budget: _Budget) -> None:
        self._pattern, self._world, self._budget = pattern, world, budget  # world: ranks in all
        self.fields: Mapping[str, Any] = {}
        self._ranks: dict[str, Trace] = {}
        self._untimed: dict[str, list[tuple[int, float]]] = {}  # index, when it was over at last
        self._members: dict[str, Any] = {}  # rank in a communicator of a process
        self._context: dict[str, Any] = {}
        # Kernels with their process, if they have no category, and the correlation to their launch.
        self._kernels: list[tuple[str, str, Collective]] = []
        self._other_kernels = 0
        self._launches: dict[str, tuple[str, float]] = {}  # thread and time
        self._calls: dict[str, list[tuple[float, float, _Size]]] = {}
        self._begun: dict[str, list[tuple[float, _Finish]]] = {}  # by thread
        self._processes: dict[str, str] = {}  # names
        self._gpu_steps: dict[str, tuple[float, float]] = {}
        self._recorded: list[tuple[str, str, float, Collective]] = []  # group, name, message
        self._plain: list[float] = []  # bytes of collectives without times

    def take(self, value: Any) -> None:
        """Take an event, an entry of a flight recorder, a node or a line of an Inspector."""
        if not isinstance(value, dict):
            raise InputError(f"must be a mapping, got {quote(value)}")
        if "ph" in value:
            self._event(value)
        elif "profiling_name" in value:
            self._entry(value)
        elif ("name" in value and "id" in value) or ("Name" in value and "Id" in value):
            self._node(value)
        else:
            self._line(value)

    def traces(self) -> list[Trace]:
        """Return the traces of all ranks."""
        notes = self._place_kernels()
        for key, ends in self._untimed.items():
            following, collectives = math.inf, self._ranks[key].collectives
            for index, end in reversed(ends):
                following = min(end, following) - collectives[index].length_us
                collectives[index] = collectives[index]._replace(start_us=following)
        groups = _mapping(self.fields.get("pg_config"))
        for group, name, message, timed in self._recorded:
            members = _mapping(groups.get(group)).get("ranks")
            ranks = len(re.findall(r"\d+", members)) if isinstance(members, str) else self._world
            sized = _sized(message, name, ranks) if message else ()
            self._rank().collectives.append(Collective(timed.start_us, timed.length_us, *sized))
        traces = [trace for trace in self._ranks.values() if trace.collectives]
        if not traces:
            raise InputError(self._why_empty())
        if self._recorded:
            notes.append("times of a flight recorder are those of its watchdog, which looks late")
            if self._plain:
                notes.append(f"left out: collectives without times: {len(self._plain):,}")
        traces[0].notes += notes
        return traces

    def _place_kernels(self) -> list[str]:
        """Give kernels to their ranks, with sizes and steps by their launches; return notes."""
        for calls in self._calls.values():
            calls.sort(key=lambda call: call[:2])
        steps, launched = sorted(self._rank().steps), dict[str, tuple[float, float]]()
        for process, correlation, kernel in self._kernels:
            if _HOST.match(self._processes.get(process, "")):
                continue
            # Without a size of its own, that of the innermost call around its launch.
            thread, at = self._launches.get(correlation, ("", -1.0))
            calls = self._calls.get(thread, [])
            index = bisect(calls, at, key=lambda call: call[0]) - 1
            if kernel.message_bytes is None and index >= 0 and at <= calls[index][1]:
                kernel = Collective(kernel.start_us, kernel.length_us, *calls[index][2])
            step = bisect(steps, at, key=lambda span: span[0]) - 1
            if step >= 0 and at <= steps[step][1]:
                _extend(launched, str(step), kernel.start_us, kernel.start_us + kernel.length_us)
            self._rank(process).collectives.append(kernel)
        marks = self._gpu_steps if len(self._gpu_steps) > 1 else launched
        self._rank().gpu_steps = sorted(marks.values())
        open_ones = sum(finish is not None for begun in self._begun.values() for _, finish in begun)
        return [f"left out: events without an end: {open_ones:,}"] if open_ones else []

    def _why_empty(self) -> str:
        """Return the reason why there are no collectives."""
        if self._plain:
            remedy = "give the Kineto trace of the same run, or link the two"
            if "entries" in self.fields:
                remedy = "set TORCH_NCCL_ENABLE_TIMING=1 in the job"
            of = f"{len(self._plain):,}, of {sum(self._plain) / 1e6:,.0f} MB"
            return f"collectives without times: {of}; {remedy}"
        what = "trace several ranks, with their GPUs"
        if self._kernels:
            what = f"{len(self._kernels):,} events so called are of processes of the host; {what}"
        elif self._other_kernels:
            named = quote(self._pattern.pattern)
            none = f"none of {self._other_kernels:,} events that may be kernels"
            what = f"{none} is called {named}; use --kernels PATTERN"
        elif self.fields and not self.fields.keys() & set(_LISTS):
            what = f"it has {first_few(list(map(quote, self.fields)))}; give a trace of {_KNOWN}"
        return f"holds no collectives, such as NCCL's kernels; {what}"

    def _rank(self, key: str = "") -> Trace:
        return self._ranks.setdefault(key, Trace())

    def _event(self, event: Mapping[str, Any]) -> None:
        """Take an event of Kineto or XLA, or the beginning or the end of one."""
        phase = event["ph"]
        if phase == "X" and (finish := self._begin(event)):
            self._budget.take("events of collectives")
            finish(_span(event)[1])
        elif phase in ("B", "E"):
            begun = self._begun.setdefault(f"{event.get('pid')} {event.get('tid')}", [])
            if phase == "B":
                self._budget.take("events of collectives")
                begun.append((_number(event, "ts"), self._begin(event)))
            elif begun:
                start, finish = begun.pop()
                if finish:
                    finish(max(start, _number(event, "ts")))
        elif phase == "M" and event.get("name") == "process_name":
            self._budget.take("events of collectives")
            name = _mapping(event.get("args")).get("name")
            self._processes[str(event.get("pid"))] = str(name)[:_HEAD]

    def _begin(self, event: Mapping[str, Any]) -> _Finish:
        """Begin an event; an event without a category may be a kernel, which its process says."""
        name, kind = str(event.get("name")), str(event.get("cat") or "").lower()
        args = _mapping(event.get("args"))
        if kind in ("kernel", "") and self._pattern.search(name):
            start, size = _number(event, "ts"), _size(args, name, self._world) or ()
            process = "" if kind else str(event.get("pid"))
            link = str(args.get("correlation"))[:_HEAD]
            return lambda end: self._kernels.append(
                (process, link, Collective(start, end - start, *size))
            )
        self._other_kernels += kind in ("kernel", "")
        if name.startswith("ProfilerStep"):
            start, label = _number(event, "ts"), name[:_HEAD]
            if "gpu" in kind:  # one for each stream
                return lambda end: _extend(self._gpu_steps, label, start, end)
            return lambda end: self._rank().steps.append((start, end))
        if "gpu" in kind or kind == "kernel":
            return None
        thread = str(event.get("tid"))[:_HEAD]
        if "launch" in name.lower() and "correlation" in args:
            self._budget.take("events of collectives")
            self._launches[str(args["correlation"])[:_HEAD]] = thread, _number(event, "ts")
        elif "comms" in name or self._pattern.search(name):
            called = _size(args, name, self._world) or _shaped(args, name, self._world)
            if called is not None:
                start = _number(event, "ts")
                return lambda end: self._calls.setdefault(thread, []).append((start, end, called))
        return None

    def _entry(self, entry: Mapping[str, Any]) -> None:
        """Take an entry of a flight recorder; unknown times are null or 0."""
        name, group = str(entry["profiling_name"]), entry.get("process_group")
        group = group[0] if isinstance(group, list) and group else entry.get("pg_id")
        shapes = (_stored(entry.get(f"{way}_sizes"), entry.get(f"{way}_dtypes")) for way in _WAYS)
        message, known = max(shapes), {key: value or 0 for key, value in entry.items()}
        start, end = (_number(known, f"time_discovered_{what}_ns", 1e21) / 1000 for what in _TIMES)
        length = 1000 * _number({"duration_ms": 0, **known}, "duration_ms") or end - start
        if not end or length <= 0 or entry.get("state") == "scheduled":
            self._plain.append(message)
        else:
            self._budget.take("events of collectives")
            timed = Collective(start or end - length, length)
            self._recorded.append((str(group)[:_HEAD], name[:_HEAD], message, timed))

    def _node(self, node: Mapping[str, Any]) -> None:
        """Take a node of Chakra; those of PyTorch and of feeders have no times of their beginning.

        Nodes on the CPU only launch the nodes that send.
        """
        name, kind = str(node.get("name", node.get("Name"))), node.get("type", node.get("NodeType"))
        times = {"ts": node.get("startTimeMicros"), "dur": node.get("durationMicros"), **node}
        way = _SENDING.get(kind) if isinstance(kind, (int, str)) else None
        if name.startswith("ProfilerStep"):
            if times["ts"]:
                self._rank().steps.append(_span(times))
        elif way or (kind is None and name == "record_param_comms"):
            pairs = _mappings(node.get("attrs", node.get("attr")))
            stated = {str(pair.get("name")): [*pair.values()][-1] for pair in pairs if pair}
            args = {**node, **stated}
            size = _size(args, way or name, self._world)
            self._budget.take("events of collectives")
            if times["ts"] and not args.get("is_cpu_op"):
                start, end = _span(times)
                self._rank().collectives.append(Collective(start, end - start, *(size or ())))
            elif size is not None or (way and not args.get("is_cpu_op")):
                self._plain.append(size[0] if size else 0.0)

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


def _extend(spans: dict[str, tuple[float, float]], key: str, start: float, end: float) -> None:
    """Extend a span so that it holds another one."""
    before = spans.get(key, (start, end))
    spans[key] = min(before[0], start), max(before[1], end)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return list(map(_mapping, values)) if isinstance(values, list) else []


def _number(values: Mapping[str, Any], key: str, limit: float = 1e18) -> float:
    """Return a number from 0 to a limit; some tools write numbers as text."""
    value = values.get(key)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < limit:
        raise InputError(f"{key}: {quote(value)}: must be a number from 0 to {limit:.0e}")
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
        name = _KINDS.get(str(args["comm_type"])[:2], "") if "comm_type" in args else name
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
    total = _stored(args.get("Input Dims"), args.get("Input type"))
    if "allgather" in _letters(name):
        total *= world or 1
    return _sized(total, name, world) if total else None


def _stored(shapes: Any, types: Any) -> float:
    """Return the bytes of tensors by their shapes and types; 0 where they are not known."""
    total = 0.0
    if not (isinstance(shapes, list) and isinstance(types, list)):
        return 0.0
    for shape, kind in zip(shapes, types, strict=False):
        width = _WIDTHS.get(str(kind)[:_HEAD].replace("c10::", "").replace(" ", "").lower())
        if width and isinstance(shape, list) and 0 < len(shape) <= _MAX_DIMENSIONS:
            lengths = [{"shape": length} for length in shape]
            if all(isinstance(length["shape"], int) for length in lengths):
                total += width * math.prod(_number(length, "shape") for length in lengths)
    return _number({"shape": total}, "shape")
