"""Traffic profiles: period, bursts and rates of a job, from its measured throughput."""

from __future__ import annotations

from metronome_opt.profiles.profile import Burst, Profile, profile
from metronome_opt.profiles.samples import Samples, from_series, read_csv, read_gate

__all__ = [
    "Burst",
    "Profile",
    "Samples",
    "from_series",
    "profile",
    "read_csv",
    "read_gate",
]
