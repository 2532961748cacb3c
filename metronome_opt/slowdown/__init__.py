"""Gated jobs and their slots: schedules that make jobs faster, judged by letting the jobs run."""

from metronome_opt.slowdown.solve import solve

__all__ = ["solve"]
