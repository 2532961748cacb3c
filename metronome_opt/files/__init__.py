"""Documents, validated records and crash-safe journals."""
