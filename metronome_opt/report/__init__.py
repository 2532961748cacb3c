"""What a person reads: tables for the terminal."""

from metronome_opt.report.tables import (
    JOBS_LEGEND,
    comparison_table,
    jobs_table,
    objectives_table,
    terminal,
)

__all__ = ["JOBS_LEGEND", "comparison_table", "jobs_table", "objectives_table", "terminal"]
