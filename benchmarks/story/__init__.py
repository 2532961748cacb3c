"""A cluster whose nodes are network namespaces, and what happens in it, with us and without."""
