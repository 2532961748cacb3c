"""Campaigns of solvers over suites of stored instances, and what they show."""
