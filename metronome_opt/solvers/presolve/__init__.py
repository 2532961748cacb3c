"""Presolve: smaller instances with the same optimum, and the way back."""
