"""A bar below the cell of a notebook while a call takes long."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_AFTER_S, _EVERY_S = 1.0, 0.25


def notebook() -> Any | None:
    """Return the shell of IPython that runs in the kernel of a notebook; None elsewhere."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = ipython and ipython()
    return shell if hasattr(shell, "kernel") else None


@contextmanager
def notebook_bar(title: str, limit_s: float | None) -> Iterator[Callable[[str], None] | None]:
    """Yield a function that shows how far a call is, None without a notebook.

    Nothing is shown of the first second; at the end the bar is removed.
    """
    if notebook() is None:
        yield None
        return
    from IPython.display import display

    began = time.monotonic()
    shown_s = began + _AFTER_S - _EVERY_S
    handle = None

    def show(text: str) -> None:
        nonlocal handle, shown_s
        now = time.monotonic()
        if now - shown_s < _EVERY_S:
            return
        shown_s, passed = now, now - began
        ends = "" if limit_s is None else f' value="{passed:.1f}" max="{limit_s:g}"'
        words = f"{title}: {passed:.0f} s, {text}"
        data = {
            "text/plain": words,
            "text/html": f"<progress{ends}></progress> {html.escape(words)}",
        }
        if handle is None:
            handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            handle.update(data, raw=True)

    try:
        yield show
    finally:
        if handle is not None:
            handle.update({"text/plain": ""}, raw=True)
