"""Scenarios: a cluster and training jobs as people describe them, turned into an instance."""

from __future__ import annotations

from metronome_opt.scenario.build import (
    Problem,
    build_scenario,
    locate,
    spread,
    with_hyperperiod,
)
from metronome_opt.scenario.deployment import Deployment
from metronome_opt.scenario.model import SCENARIO_FORMAT, DescribedJob, Scenario, read_scenario
from metronome_opt.scenario.network import Cluster
from metronome_opt.scenario.workload import (
    Workload,
    data_folder,
    find_workloads,
    read_workload,
)

__all__ = [
    "SCENARIO_FORMAT",
    "Cluster",
    "Deployment",
    "DescribedJob",
    "Problem",
    "Scenario",
    "Workload",
    "build_scenario",
    "data_folder",
    "find_workloads",
    "locate",
    "read_scenario",
    "read_workload",
    "spread",
    "with_hyperperiod",
]
