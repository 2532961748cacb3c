"""Reading what a cluster has: its nodes, links and workloads become a scenario."""

from metronome_opt.kubernetes.files import read_manifests
from metronome_opt.kubernetes.reading.assemble import Imported, make_scenario
from metronome_opt.kubernetes.reading.jobs import Choices
from metronome_opt.kubernetes.reading.objects import Objects

__all__ = ["Choices", "Imported", "Objects", "make_scenario", "read_manifests"]
