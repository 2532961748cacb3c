"""Traffic profiles of jobs, from measured throughput and from records of gates."""

from metronome_opt.profiles.profile import Profile, profile_throughput
from metronome_opt.profiles.record import profile_record
from metronome_opt.profiles.throughput import Throughput, read_csv

__all__ = ["Profile", "Throughput", "profile_record", "profile_throughput", "read_csv"]
