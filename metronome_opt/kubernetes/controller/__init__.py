"""Controller: gives waiting pods nodes and slots, gang by gang."""
