"""Jobs in motion: patterns, conditions, and the event engine."""
