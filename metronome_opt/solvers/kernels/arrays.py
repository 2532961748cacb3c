"""Copies, minima and sorting without memory of their own, since kernels allocate none."""

from __future__ import annotations

from metronome_opt.compiling import inner
from metronome_opt.solvers.kernels.compiled_instance import Ints


@inner
def copy_entries(source: Ints, target: Ints) -> None:
    """Copy all entries of an array to another one of its length."""
    for index in range(source.shape[0]):
        target[index] = source[index]


@inner
def minimum_of(array: Ints) -> int:
    """Return the minimum entry."""
    minimum: int = array[0]
    for index in range(1, array.shape[0]):
        minimum = min(minimum, array[index])
    return minimum


@inner
def sort_stably(keys: Ints, count: int, order: Ints, spare: Ints) -> None:
    """Write the indices of the first `count` keys to `order`, by ascending key; merge sort.

    `spare` is scratch of as many entries.
    """
    for index in range(count):
        order[index] = index
    width = 1
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for at in range(begin, end):
                if left < middle and (right == end or keys[order[left]] <= keys[order[right]]):
                    spare[at] = order[left]
                    left += 1
                else:
                    spare[at] = order[right]
                    right += 1
        for index in range(count):
            order[index] = spare[index]
        width *= 2
