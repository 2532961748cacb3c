"""Who is gated, and when: schedules that make jobs faster, judged by letting the jobs run."""

from metronome_opt.slowdown.solve import solve

__all__ = ["solve"]
