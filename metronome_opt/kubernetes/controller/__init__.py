"""Controller: gives waiting pods nodes and windows, gang by gang."""
