"""Read nodes, links and workloads of a cluster into a scenario."""

from metronome_opt.kubernetes.files import read_manifests
from metronome_opt.kubernetes.objects import Objects
from metronome_opt.kubernetes.reading.machines import Choices
from metronome_opt.kubernetes.reading.scenario import Imported, make_scenario

__all__ = ["Choices", "Imported", "Objects", "make_scenario", "read_manifests"]
