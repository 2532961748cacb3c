"""A block as a cost network: what each link costs, as a table over the offsets of its jobs."""
