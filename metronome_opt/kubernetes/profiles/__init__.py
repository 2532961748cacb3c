"""Iterations of jobs from traces and counters."""
