"""The monitor of a cluster."""
