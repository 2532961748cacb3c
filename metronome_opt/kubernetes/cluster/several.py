"""Asking a server several things at a time, since most of the time is spent on waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

WORKERS = 4

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Tell = Callable[[int, int], None]


def each(
    question: Callable[[Item], Answer], items: Sequence[Item], tell: Tell | None = None
) -> list[Answer]:
    """Return the answers for all items, in their order.

    Parameters
    ----------
    question
        Asked from several threads. If it raises, what has not begun is not asked any more, and the
        first error is raised.
    items
        What to ask for.
    tell
        Called with how many of how many have been answered.
    """
    answers: list[Answer] = []
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        futures = [pool.submit(question, item) for item in items]
        try:
            for future in futures:
                answers.append(future.result())
                if tell is not None:
                    tell(len(answers), len(items))
        finally:
            for future in futures:
                future.cancel()
    return answers
