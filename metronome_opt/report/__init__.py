"""What a person reads: tables for the terminal."""

from metronome_opt.report.tables import (
    comparison_table,
    jobs_table,
    objectives_table,
)

__all__ = ["comparison_table", "jobs_table", "objectives_table"]
