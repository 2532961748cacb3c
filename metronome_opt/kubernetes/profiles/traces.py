"""Traces of jobs, with times and bytes of collectives, of one rank or of several.

Formats are events in JSON, as of Kineto and XLA, the JSON of PyTorch's flight recorder and of
Chakra execution traces, and the JSON lines of NCCL's and RCCL's Inspector, also with gzip, or of
several ranks in a tar file.
"""

from __future__ import annotations

import gc
import re
import tarfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.kubernetes.profiles.entries import KNOWN, Collective, Trace, TraceReader
from metronome_opt.kubernetes.profiles.json_stream import BLANK, JsonStream
from metronome_opt.kubernetes.profiles.source import Budget, Source

_MAX_SHOWN = 8  # members of a tar file that are omitted
_NAMES = (".json", ".et", ".gz", ".tgz", ".tar", ".pb")
_BINARY = {
    b"\x80": "a pickle; have a flight recorder dump JSON",
    b"SQLite format 3": "an SQLite database",
    b"PK\x03\x04": "a zip file; unpack it",
    b"\xfd7zXZ": "packed by xz; unpack it",
    b"BZh": "packed by bzip2; unpack it",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it",
}
_LIBRARY = re.compile("[nrs]ccl", re.IGNORECASE)  # NCCL, RCCL, MSCCL


def holds_trace(source: Source) -> bool:
    """Return whether a file is a trace, rather than the record of a gate or samples."""
    if source.name.endswith(".jsonl") or b'"burst_ms"' in source.head:
        return b'"header"' in source.head
    is_packed = source.is_tar or source.head.startswith(tuple(_BINARY))
    return source.name.endswith(_NAMES) or is_packed or _is_json(source)


def read_traces(source: Source, kernels: str | None = None) -> list[Trace]:
    """Read the trace of a rank, or of several, with times of collectives.

    Parameters
    ----------
    source
        A file; members of a tar file that are no traces are omitted, with a note.
    kernels
        Regular expression that the names of kernels of collectives contain; None for those of
        NCCL, RCCL and MSCCL.
    """
    pattern, budget, faults = _compile(kernels), Budget(), list[str]()
    with _no_collection():
        if source.is_tar:
            try:
                with tarfile.open(fileobj=cast("Any", source), mode="r|") as files:
                    traces, faults = _read_members(files, pattern, budget)
            except tarfile.TarError as error:
                raise InputError(f"damaged tar file ({error}); pack it again") from None
        else:
            traces = _read(source, pattern, budget)
    if not traces:
        fault = faults[0] if faults else "it has no files; pack the traces of all ranks"
        raise InputError(f"a tar file without traces: {fault}")
    if len(traces) > 1 and all(trace.identities for trace in traces):
        _match_ranks(traces)
    traces[0].notes += [f"omitted: {fault}" for fault in faults[:_MAX_SHOWN]]
    if len(faults) > _MAX_SHOWN:
        traces[0].notes.append(f"omitted: {len(faults) - _MAX_SHOWN:,} more members")
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
    files: tarfile.TarFile, pattern: re.Pattern[str], budget: Budget
) -> tuple[list[Trace], list[str]]:
    """Return the traces in a tar file, and why members hold none."""
    traces, faults = [], []
    for member in files:
        files.members.clear()  # type: ignore[attr-defined]  # of all that were read
        budget.take("members")
        try:
            with error_context(quote(member.name)[1:-1]):
                if member.isreg() and not member.issparse():
                    stored = Source(files.extractfile(member), member.name, budget)
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


def _is_json(source: Source) -> bool:
    return source.head.lstrip(BLANK)[:1] in (b"{", b"[")


def _read(source: Source, pattern: re.Pattern[str], budget: Budget) -> list[Trace]:
    """Return the traces in an unpacked file."""
    for begin, what in _BINARY.items():
        if source.head.startswith(begin):
            raise InputError(f"is {what}; give a trace of {KNOWN}")
    if not _is_json(source):
        begins = quote(source.head[:20].decode("latin-1"))
        raise InputError(f"begins with {begins}: not JSON; give a trace of {KNOWN}")
    reader, stream = TraceReader(pattern, budget), JsonStream(source, budget)
    stream.pass_to(reader.take)
    return reader.traces(stream.fields)


def _match_ranks(traces: Sequence[Trace]) -> None:
    """Keep the collectives that flight recorders of all ranks have, in one order.

    Groups that all ranks have are known by their names, others by their roles.
    """
    groups = set.intersection(*({group for group, *_ in trace.identities} for trace in traces))
    tables = []
    for trace in traces:
        counts, table = Counter[tuple[Any, ...]](), dict[tuple[Any, ...], Collective]()
        for one, collective in zip(trace.identities, trace.collectives, strict=True):
            group, role, number = one
            key = group if group in groups else role, number
            table[*key, counts[key]] = collective
            counts[key] += 1
        tables.append(table)
    common = [key for key in tables[0] if all(key in table for table in tables)]
    if not common:
        raise InputError("ranks recorded no collective in common; dump them at the same time")
    if missing := sum(map(len, tables)) - len(tables) * len(common):
        traces[0].notes.append(f"omitted: collectives that not all ranks recorded: {missing:,}")
    for trace, table in zip(traces, tables, strict=True):
        trace.collectives = [table[key] for key in common]
