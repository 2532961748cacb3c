"""Everything that the paper can show: all macros, tables and figures, from what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from paper import figures, tables
from paper.instances import instance_numbers
from paper.measured import Figures, benchmark_numbers
from paper.mixes import mix_numbers
from paper.published import HEADLINES
from paper.recorded import RESULTS, benchmark_figures, simulation_records, solver_records
from paper.shown import Numbers
from paper.solvers import Campaign, read_campaign, solver_numbers
from paper.studies import NAMES, StudyRuns, read_study, study_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Recorded:
    """Records, read when first needed.

    Attributes
    ----------
    folder
        That of the index.
    """

    folder: Path = RESULTS

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign of solvers."""
        return read_campaign(solver_records(self.folder))

    @cached_property
    def studies(self) -> Mapping[str, StudyRuns | None]:
        """The simulated studies by name, None for those that are not recorded."""
        return {study: read_study(simulation_records(study, self.folder)) for study in NAMES}

    @cached_property
    def figures(self) -> Figures:
        """The figures of single benchmarks."""
        return benchmark_figures(self.folder)

    @cached_property
    def numbers(self) -> Numbers:
        """The text of every macro, None where nothing is recorded of it."""
        return (
            dict(HEADLINES)
            | instance_numbers()
            | solver_numbers(self.campaign)
            | study_numbers(self.studies)
            | mix_numbers(self.studies["snapshot"])
            | benchmark_numbers(self.figures)
        )


TABLES: Mapping[str, Callable[[Recorded], str | None]] = {
    "families": lambda _: tables.families(),
    "workloads": lambda _: tables.workloads_table(),
    "solvers": lambda recorded: tables.solvers(recorded.campaign),
    "dynamic": lambda recorded: tables.cells(recorded.studies["dynamic-24"]),
    "tails": lambda recorded: tables.tails(recorded.studies),
    "placement": lambda recorded: tables.placement(recorded.figures),
    "prediction": lambda recorded: tables.prediction(recorded.figures),
}
"""The tables by the names of their files; None where what they show is not recorded."""

FIGURES: Mapping[str, Callable[[Recorded], Figure | None]] = {
    "profile": lambda recorded: figures.profile(recorded.campaign),
    "growth": lambda recorded: figures.growth(recorded.campaign),
    "gaps": lambda recorded: figures.gaps(recorded.campaign),
    "snapshot": lambda recorded: figures.snapshot(recorded.studies["snapshot"]),
}
"""The figures likewise."""
