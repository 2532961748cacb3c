"""Experiments to look at, and the tool that stores them with what they show."""
