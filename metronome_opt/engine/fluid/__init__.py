"""The event loop of the simulator: bursts as fluids on shared links, exact event times."""
