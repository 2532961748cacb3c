"""How a task ended and what it said before, from its outcome."""

from __future__ import annotations

import signal
from typing import Any

from metronome_opt.bench.process import Limits, Outcome


def said(outcome: Outcome, event: str) -> dict[str, Any]:
    """Return what the task said first of an event; nothing if it did not say so."""
    return next((told for told in outcome.messages if told["event"] == event), {})


def how_it_ended(outcome: Outcome, limits: Limits) -> str:
    """Return in a few words how a task ended that did not say so itself."""
    match outcome.ending:
        case "time":
            over = limits.killed_after_s - limits.time_s
            return f"killed {over:g} s after its limit of {limits.time_s:g} s"
        case "memory":
            return (
                f"killed at {outcome.peak_memory_mb} MB, above the limit of {limits.memory_mb} MB"
            )
        case "startup":
            return f"killed, not ready {limits.startup_s:g} s after its start"
        case "stopped":
            return "killed, since the campaign ended"
        case "ended":
            how = f"exit status {outcome.status}"
            if outcome.status is not None and outcome.status < 0:
                how = f"ended by signal {-outcome.status} ({signal.strsignal(-outcome.status)})"
            return f"{how}: {outcome.last_words}" if outcome.last_words else how
