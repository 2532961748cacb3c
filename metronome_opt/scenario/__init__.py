"""Scenarios: a cluster and training jobs as people describe them, turned into an instance."""

from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.scenario_file import Scenario, locate, read_scenario
from metronome_opt.scenario.spreading import spread

__all__ = ["Scenario", "build_scenario", "locate", "read_scenario", "spread"]
