"""Benchmarks: stored cases, the registry and the runner."""
