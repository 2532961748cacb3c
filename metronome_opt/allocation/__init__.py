"""Allocation: where jobs run, when they start, which are gated, how often and when they send."""
