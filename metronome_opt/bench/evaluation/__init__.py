"""What simulations show: measures, means over seeds, comparisons in pairs, marks."""
