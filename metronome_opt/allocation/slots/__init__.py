"""Minimum slowdown: which jobs are gated, with which windows, as simulated."""
