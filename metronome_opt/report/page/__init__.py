"""The report page: one file that opens in a browser and in which jobs are rotated by hand."""

from metronome_opt.report.page.assemble import build_page
from metronome_opt.report.page.sources import Point, find_problem, read_points

__all__ = ["Point", "build_page", "find_problem", "read_points"]
