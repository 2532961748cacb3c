"""Policies: who runs where, and when each job may begin its iterations."""

from __future__ import annotations

from metronome_opt.simulate.policies.registry import PARTS, POLICIES, find_policy

__all__ = ["PARTS", "POLICIES", "find_policy"]
