"""Traffic profile of a job from a file of any format."""

from __future__ import annotations

from pathlib import Path

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.collectives import profile_traces
from metronome_opt.kubernetes.profiles.profile import Profile, profile_record, read_record
from metronome_opt.kubernetes.profiles.sampled import profile_samples, read_samples
from metronome_opt.kubernetes.profiles.source import open_source
from metronome_opt.kubernetes.profiles.traces import holds_trace, read_traces


def profile_file(
    path: str | Path, rate_mbps: float | None = None, kernels: str | None = None
) -> Profile:
    """Find the period of a job and its bursts in a record, samples or a trace.

    Standard input is read by the name ``-``; `rate_mbps` is for a trace without bytes, `kernels`
    as of `read_traces`.
    """
    with open_source(path) as source:
        is_trace = holds_trace(source)
        if is_trace:
            found = profile_traces(read_traces(source, kernels), rate_mbps)
        elif source.name.endswith(".jsonl") or b'"burst_ms"' in source.head:
            found = profile_record(read_record(source))
        else:
            found = profile_samples(*read_samples(source))
        if kernels is not None and not is_trace:
            raise InputError("is no trace; omit --kernels")
        if rate_mbps is not None and (found.message_bytes is not None or not is_trace):
            raise InputError("states the volumes sent; omit --rate-mbps")
    return found
