"""Entries of traces: events of Kineto and XLA, of flight recorders, of Chakra and of Inspectors."""

from __future__ import annotations

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple

from metronome_opt.errors import InputError, first_few, quote
from metronome_opt.kubernetes.profiles.json_stream import LISTS
from metronome_opt.kubernetes.profiles.messages import (
    Message,
    keep_letters,
    measure_tensors,
    read_message,
    read_number,
    read_tensors,
    state_message,
)
from metronome_opt.kubernetes.profiles.source import Budget

KNOWN = "Kineto, XLA (trace.json.gz), Chakra, an Inspector, or a flight recorder"
"""Formats of traces."""

_MAX_TEXT = 4096
_WAYS, _TIMES = ("input", "output"), ("started", "completed")  # of a flight recorder
_UNNAMED = ("", "undefined")  # descriptions of groups
_HOST = re.compile("(?!.*[gt]pu).*(host|cpu|python)", re.IGNORECASE)  # names of processes
# Of Chakra: types of nodes that send.
_SENDING: dict[Any, str] = {5: "send", 6: "recv", 7: "collective"}
_SENDING |= {"COMM_SEND_NODE": "send", "COMM_RECV_NODE": "recv", "COMM_COLL_NODE": "collective"}

_Span = tuple[float, float]
"""Start and end."""

Identity = tuple[str, str, tuple[bool, int]]
"""Group of an entry of a flight recorder, its role in the process, and the entry's number in it.

The role is what groups of other ranks have too: a description, or a number.
"""

_Finish = Callable[[float], None] | None
"""Function of the time at which an event ends; None for an event that is skipped."""


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
    """Collectives of one rank by time, and starts and ends (us) of the steps that are marked.

    `steps` are marked by the CPU; `gpu_steps` are when the GPU ran what the CPU launched in them.
    Notes say what was omitted, or is not exact.
    """

    collectives: list[Collective] = field(default_factory=list)
    identities: list[Identity] = field(default_factory=list)  # of all collectives, or none
    steps: list[_Span] = field(default_factory=list)
    gpu_steps: list[_Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class TraceReader:
    """Collects the entries of any format; unknown entries are skipped."""

    def __init__(self, pattern: re.Pattern[str], budget: Budget) -> None:
        self._pattern, self._budget = pattern, budget
        self._ranks: dict[str, Trace] = {}
        # By rank, starts, lengths and messages of collectives; in `_untimed`, index and time at
        # which those without a start were over at last.
        self._collectives = defaultdict[str, list[tuple[float, float, Message | None]]](list)
        self._untimed = defaultdict[str, list[tuple[int, float]]](list)
        self._members: dict[str, Any] = {}  # rank in a communicator of a process
        self._context: dict[str, Any] = {}
        # Kernels with their process, if they have no category, and the correlation to their launch.
        self._kernels: list[tuple[str, str, float, float, Message | None]] = []
        self._other_kernels = 0
        self._launches: dict[str, tuple[str, float]] = {}  # thread and time
        self._calls = defaultdict[str, list[tuple[float, float, Message]]](list)
        self._begun = defaultdict[tuple[str, str], list[tuple[float, _Finish]]](list)  # by thread
        self._names: dict[tuple[str, str], str] = {}  # of processes and threads
        self._gpu_steps: dict[str, _Span] = {}
        self._numbered = defaultdict[tuple[str, str], list[_Span]](list)  # events by thread
        # Entries of a flight recorder: group, start, length and message.
        self._recorded: list[tuple[str, float, float, Message | None]] = []
        self._identities: list[Identity] = []
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

    def traces(self, fields: Mapping[str, Any]) -> list[Trace]:
        """Return the traces of all ranks, of a document that has fields beside its entries."""
        notes, world = self._place_kernels(), None
        for key, ends in self._untimed.items():
            following, collectives = math.inf, self._collectives[key]
            for index, end in reversed(ends):
                _, length, message = collectives[index]
                following = min(end, following) - length
                collectives[index] = following, length, message
        stated, groups = (_mapping(fields.get(key)) for key in ("distributedInfo", "pg_config"))
        with suppress(InputError):
            world = max(1.0, read_number(stated, "world_size"))
        members = {key: _mapping(group).get("ranks") for key, group in groups.items()}
        for group, start, length, message in self._recorded:
            if message and isinstance(ranks := members.get(group), str):
                message = message._replace(ranks=float(len(re.findall(r"\d+", ranks))) or None)
            self._collectives[""].append((start, length, message))
        for key, collectives in self._collectives.items():
            self._rank(key).collectives = [
                Collective(start, length, *(message.measure(world) if message else ()))
                for start, length, message in collectives
            ]
        if len(self._identities) == len(self._recorded) == len(self._rank().collectives):
            self._rank().identities = self._identities
        traces = [trace for trace in self._ranks.values() if trace.collectives]
        if not traces:
            raise InputError(self._why_empty(fields))
        if self._recorded:
            notes.append("times of a flight recorder are those of its watchdog, which looks late")
            if self._plain:
                notes.append(f"omitted: collectives without times: {len(self._plain):,}")
        traces[0].notes += notes
        return traces

    def _place_kernels(self) -> list[str]:
        """Give kernels to their ranks, with messages and steps by their launches; return notes."""
        for calls in self._calls.values():
            calls.sort(key=lambda call: call[:2])
        steps, launched = sorted(self._rank().steps), dict[str, _Span]()
        for process, correlation, start, length, message in self._kernels:
            if self._is_of_host(process):
                continue
            # Without a message of its own, that of the innermost call around its launch.
            thread, at = self._launches.get(correlation, ("", -1.0))
            calls = self._calls.get(thread, [])
            index = bisect(calls, at, key=lambda call: call[0]) - 1
            if message is None and index >= 0 and at <= calls[index][1]:
                message = calls[index][2]
            step = bisect(steps, at, key=lambda span: span[0]) - 1
            if step >= 0 and at <= steps[step][1]:
                _extend(launched, str(step), start, start + length)
            self._collectives[process].append((start, length, message))
        marks = self._gpu_steps if len(self._gpu_steps) > 1 else launched
        self._rank().gpu_steps = sorted(marks.values())
        for (process, thread), spans in self._numbered.items():  # of XLA
            is_marked = self._names.get((process, thread)) == "Steps" and len(spans) > 2
            if is_marked and not self._is_of_host(process):
                self._rank(process).gpu_steps = sorted(spans)
        open_ones = sum(finish is not None for begun in self._begun.values() for _, finish in begun)
        return [f"omitted: events without an end: {open_ones:,}"] if open_ones else []

    def _is_of_host(self, process: str) -> bool:
        return _HOST.match(self._names.get((process, ""), "")) is not None

    def _why_empty(self, fields: Mapping[str, Any]) -> str:
        """Return the reason why there are no collectives."""
        if self._plain:
            remedy = "give the Kineto trace of the same run, or link the two"
            if "entries" in fields:
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
        elif fields and not fields.keys() & set(LISTS):
            what = f"it has {first_few(list(map(quote, fields)))}; give a trace of {KNOWN}"
        return f"holds no collectives, such as NCCL's kernels; {what}"

    def _rank(self, key: str = "") -> Trace:
        return self._ranks.setdefault(key, Trace())

    def _event(self, event: Mapping[str, Any]) -> None:
        """Take an event of Kineto or XLA, or the beginning or the end of one."""
        phase, name = event["ph"], str(event.get("name"))
        if phase == "X" and (finish := self._begin(event, name)):
            self._budget.take("events of collectives")
            finish(_span(event)[1])
        elif phase in ("B", "E"):
            begun = self._begun[_place(event)]
            if phase == "B":
                self._budget.take("events of collectives")
                begun.append((read_number(event, "ts"), self._begin(event, name)))
            elif begun:
                start, finish = begun.pop()
                if finish:
                    finish(max(start, read_number(event, "ts")))
        elif phase == "M" and name in ("process_name", "thread_name"):
            self._budget.take("events of collectives")
            process, thread = _place(event)
            named = str(_mapping(event.get("args")).get("name"))[:_MAX_TEXT]
            self._names[process, thread if name == "thread_name" else ""] = named

    def _begin(self, event: Mapping[str, Any], name: str) -> _Finish:
        """Begin an event; an event without a category may be a kernel, which its process says."""
        kind, args = str(event.get("cat") or "").lower(), _mapping(event.get("args"))
        if kind in ("kernel", ""):
            if self._pattern.search(name):
                start, message = read_number(event, "ts"), read_message(args, name)
                process = "" if kind else _place(event)[0]
                link = str(args.get("correlation"))[:_MAX_TEXT]
                return lambda end: self._kernels.append(
                    (process, link, start, end - start, message)
                )
            if not kind and name.isdecimal():  # perhaps a step of XLA
                start = read_number(event, "ts")
                return lambda end: self._numbered[_place(event)].append((start, end))
            self._other_kernels += 1
        if name.startswith("ProfilerStep"):
            start, label = read_number(event, "ts"), name[:_MAX_TEXT]
            if "gpu" in kind:  # one for each stream
                return lambda end: _extend(self._gpu_steps, label, start, end)
            return lambda end: self._rank().steps.append((start, end))
        return None if "gpu" in kind or kind == "kernel" else self._begin_call(event, name, args)

    def _begin_call(self, event: Mapping[str, Any], name: str, args: Mapping[str, Any]) -> _Finish:
        """Begin a call on the CPU: the launch of a kernel, or a collective with its message."""
        thread = _place(event)[1]
        if "launch" in name.lower() and "correlation" in args:
            self._budget.take("events of collectives")
            self._launches[str(args["correlation"])[:_MAX_TEXT]] = thread, read_number(event, "ts")
        elif "comms" in name or self._pattern.search(name):
            message = read_message(args, name) or read_tensors(args, name)
            if message is not None:
                start, called = read_number(event, "ts"), message
                return lambda end: self._calls[thread].append((start, end, called))
        return None

    def _entry(self, entry: Mapping[str, Any]) -> None:
        """Take an entry of a flight recorder; unknown times are null or 0."""
        name, number = str(entry["profiling_name"]), str(entry.get("pg_id"))
        stated = entry.get("process_group")
        group, role, *_ = *map(str, stated if isinstance(stated, list) else ()), number, ""
        fields = ((entry.get(f"{way}_sizes"), entry.get(f"{way}_dtypes")) for way in _WAYS)
        size = max(starmap(measure_tensors, fields))
        known = {key: value or 0 for key, value in entry.items()}
        times = (read_number(known, f"time_discovered_{what}_ns", 1e21) for what in _TIMES)
        start, end = (time_ns / 1000 for time_ns in times)
        length = 1000 * read_number({"duration_ms": 0, **known}, "duration_ms") or end - start
        if not end or length <= 0 or entry.get("state") == "scheduled":
            self._plain.append(size)
            return
        self._budget.take("events of collectives")
        message = state_message(size, name, None) if size else None
        self._recorded.append((group[:_MAX_TEXT], start or end - length, length, message))
        is_p2p = entry.get("is_p2p") is True
        sequence = entry.get("p2p_seq_id" if is_p2p else "collective_seq_id")
        if isinstance(sequence, int):
            role = (number if role in _UNNAMED else role)[:_MAX_TEXT]
            self._identities.append((group[:_MAX_TEXT], role, (is_p2p, sequence)))

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
            message = read_message(args, way or name)
            self._budget.take("events of collectives")
            if times["ts"] and not args.get("is_cpu_op"):
                start, end = _span(times)
                self._collectives[""].append((start, end - start, message))
            elif message is not None or (way and not args.get("is_cpu_op")):
                self._plain.append(message.size if message else 0.0)

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
            self._budget.take("events of collectives")
            name, size = str(performed.get(kind)), read_number(performed, f"{kind}_msg_size_bytes")
            is_share = keep_letters(name[:_MAX_TEXT]) in {"allgather", "reducescatter"}
            message = state_message(size, name, header.get("n_ranks"), is_share=is_share)
            length = read_number(performed, f"{kind}_exec_time_us")
            collectives = self._collectives[process]
            start = _traced(performed.get("event_trace_ts", line.get("event_trace_ts")), kind)
            if start is None:
                end = read_number(metadata, "dump_timestamp_us")
                self._untimed[process].append((len(collectives), end))
            collectives.append((start or 0.0, length, message))


def _traced(events: Any, kind: str) -> float | None:
    """Return the start of a collective by the trace of its events, None without one."""
    events, asked = _mapping(events), f"{kind}_start_ts"
    kernels, begun = _mappings(events.get("kernel_events")), "kernel_start_ts"
    begins = [read_number(kernel, begun) for kernel in kernels if kernel.get(begun)]
    return min(begins) if begins else read_number(events, asked) if events.get(asked) else None


def _extend(spans: dict[str, _Span], key: str, start: float, end: float) -> None:
    """Extend a span so that it holds another one."""
    before = spans.get(key, (start, end))
    spans[key] = min(before[0], start), max(before[1], end)


def _place(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return process and thread of an event."""
    return str(event.get("pid"))[:_MAX_TEXT], str(event.get("tid"))[:_MAX_TEXT]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return list(map(_mapping, values)) if isinstance(values, list) else []


def _span(event: Mapping[str, Any]) -> _Span:
    start = read_number(event, "ts")
    return start, start + read_number(event, "dur")
