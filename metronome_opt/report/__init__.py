"""What a person reads: tables for the terminal, and frames to work on."""

from metronome_opt.report.classes import (
    PriorityClass,
    classes_frame,
    jobs_frame,
    priority_classes,
)
from metronome_opt.report.state import on_nodes, state_tables
from metronome_opt.report.tables import (
    CLASSES_LEGEND,
    JOBS_LEGEND,
    SLOWDOWN_LEGEND,
    classes_table,
    comparison_table,
    counted,
    fit_table,
    front_table,
    gated_text,
    jobs_table,
    number,
    objectives_table,
    slowdown_table,
    stated,
    terminal,
)

__all__ = [
    "CLASSES_LEGEND",
    "JOBS_LEGEND",
    "SLOWDOWN_LEGEND",
    "PriorityClass",
    "classes_frame",
    "classes_table",
    "comparison_table",
    "counted",
    "fit_table",
    "front_table",
    "gated_text",
    "jobs_frame",
    "jobs_table",
    "number",
    "objectives_table",
    "on_nodes",
    "priority_classes",
    "slowdown_table",
    "state_tables",
    "stated",
    "terminal",
]
