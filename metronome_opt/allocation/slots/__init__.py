"""Minimum slowdown: which jobs are gated, with which slots, as simulated."""
