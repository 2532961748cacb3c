"""Read nodes, links and workloads of a cluster into a scenario."""
