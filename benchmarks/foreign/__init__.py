"""Instances that others have made, as problems of this package."""
