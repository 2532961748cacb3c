"""The inner loops: pure functions on integer arrays, compiled by numba and kept on disk."""
