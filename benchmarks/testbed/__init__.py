"""A real network on one machine: jobs that send over TCP between network namespaces."""
