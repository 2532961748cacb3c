"""Two jobs on one link, small enough to know every slot of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import PolyCollection
from matplotlib.patches import PathPatch
from matplotlib.text import Text

from metronome_opt.problem.instance import Instance, Link
from tests.builders import job


def instance() -> Instance:
    """Return a link of 50 Gbit/s with two jobs, the heavier one second, and an unused link."""
    return Instance(
        name="example",
        slot_ms=5,
        links=(Link(name="spare", capacity=100), Link(name="node-0", capacity=50_000)),
        jobs=(
            job(LIGHT, 4, (0, 1, 20_000), links={"node-0": 2}),
            job(HEAVY, 6, (0, 1, 30_000), (3, 2, 15_000), weight=4, links={"node-0": 1}),
        ),
    )


def link_per_job(*periods: int) -> Instance:
    """Return jobs j0, j1, ... that overload links l0, l1, ... in the first slot of each period."""
    return Instance(
        name="i",
        slot_ms=2,
        links=tuple(Link(name=f"l{n}", capacity=10) for n in range(len(periods))),
        jobs=tuple(
            job(f"j{n}", period, (0, 1, 20), links={f"l{n}": 1}) for n, period in enumerate(periods)
        ),
    )


LIGHT, HEAVY = "light", "_heavy $x$"

# The demands of all twelve slots in Gbit/s. What is late before is 20 and 5, all of it of the
# light job with weight 1, so the contention is 25,000 / 12; after it is 5,000 / 12.
BEFORE = {LIGHT: 0, HEAVY: 0}
AFTER = {LIGHT: 3, HEAVY: 2}

# ------------------------------------------------------------------ contents of a figure


def with_id(figure: Artist, pattern: str) -> Iterator[Artist]:
    def matches(artist: Artist) -> bool:
        return re.fullmatch(pattern, artist.get_gid() or "") is not None

    yield from figure.findobj(matches)


def texts(figure: Artist) -> list[str]:
    everything = figure.findobj(Text)
    return [text.get_text() for text in everything if isinstance(text, Text) and text.get_text()]


def polygons(figure: Artist, gid: str) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Return the corners of the areas of one name, the first of each at the end again."""
    (area,) = with_id(figure, re.escape(gid))
    if isinstance(area, PolyCollection):
        return [np.asarray(path.vertices) for path in area.get_paths()]
    assert isinstance(area, PathPatch)
    return [np.asarray(each) for each in area.get_path().to_polygons()]


def boxes(figure: Artist, gid: str) -> list[tuple[float, float, float, float]]:
    """Return (left, right, bottom, top) of each area."""
    return [
        (float(x.min()), float(x.max()), float(y.min()), float(y.max()))
        for x, y in (corners.T for corners in polygons(figure, gid))
    ]


def check_dollars(figure: Artist) -> None:
    """Check that a name with dollar signs is in a figure and not read as a formula."""
    named = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    dollars = [text for text in named if "$" in text.get_text()]
    assert dollars
    assert not any(text.get_parse_math() for text in dollars)
