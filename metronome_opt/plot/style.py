"""How things look: colours, hatches, sizes and words, the same in all pictures.

The colours are those of Okabe and Ito, "Color Universal Design" (2008), which colour-blind readers
tell apart; black is left to overload and replaced by grey. Each job has a hatch besides, so that
a print in black and white keeps the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from metronome_opt.instance import Instance, Job, Link

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.patches import Patch

    from metronome_opt.plot.picture import Picture

    Canvas = Figure | SubFigure

TITLE, TEXT, SMALL = 11.0, 9.0, 8.0  # points
INK = "#1a1a1a"
PAPER = "#ececec"

_COLOURS = (
    "#E69F00",  # orange
    "#56B4E9",  # sky blue
    "#009E73",  # bluish green
    "#F0E442",  # yellow
    "#0072B2",  # blue
    "#CC79A7",  # reddish purple
    "#D55E00",  # vermilion
    "#BBBBBB",  # grey
)
_HATCHES = (
    *("", "////", "....", "\\\\\\\\", "---", "oo", "|||", "++"),
    *("**", "//..", "\\\\..", "--..", "||..", "//oo", "O.", "/-"),
)
_LINES = ("-", "--", ":")

# Overload is black under white crosses: nothing else is.
OVERLOAD: dict[str, Any] = {
    "facecolor": "black",
    "edgecolor": "white",
    "hatch": "xxx",
    "linewidth": 0.0,
}

_MOST_ENTRIES = 40
_LONGEST_NAME = 34


@dataclass(frozen=True)
class Look:
    """How the areas of one job are drawn."""

    colour: str
    hatch: str
    line: str

    def patch(self, bursts: int = 1, jobs: int = 1) -> dict[str, Any]:
        """Return it as the properties of a patch, one of so many in a picture."""
        return {
            "facecolor": self.colour,
            "edgecolor": INK,
            "hatch": self.hatch,
            "linestyle": self.line,
            "linewidth": 0.6 * thinner(max(bursts, 3 * jobs)),
        }


def thinner(bursts: int) -> float:
    """Return the factor that keeps the outlines of many narrow bursts from hiding the colours."""
    return min(1.0, 30 / max(1, bursts))


def look(position: int) -> Look:
    """Return the look of the job at `position` on its link; 384 positions are all different.

    The first eight differ both in colour and in hatch, the first sixteen in hatch.
    """
    turn = position // len(_HATCHES)
    return Look(
        colour=_COLOURS[position % len(_COLOURS)],
        hatch=_HATCHES[(position + turn) % len(_HATCHES)],
        line=_LINES[turn // len(_COLOURS) % len(_LINES)],
    )


# ------------------------------------------------------------------ words


def shorten(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return `name` with its middle left out where it is longer than `longest` characters."""
    if len(name) <= longest:
        return name
    tail = (longest - 1) // 2
    return f"{name[: longest - 1 - tail]}…{name[-tail:]}"


def gigabits(megabits: float) -> str:
    """Return a bandwidth given in Mbit/s as text in Gbit/s."""
    return f"{megabits / 1000:,.10g} Gbit/s"


def counted(count: int, what: str) -> str:
    """Return ``1 link`` or ``2 links``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def side_title(side: str, contention: Fraction, separator: str = " ") -> str:
    """Return what stands above one half of a picture; the number is rounded for showing only."""
    return f"{side}: contention {rounded(contention)}{separator}weight × Mbit/s"


def rounded(value: Fraction) -> str:
    """Return an exact number for showing: three digits or more, and 0 only if it is 0."""
    return f"{round(value):,}" if abs(value) >= 1000 else f"{float(value):.3g}"


def milliseconds(instance: Instance, slots: float) -> str:
    """Return a number of slots as a time."""
    return f"{slots * instance.slot_ms:,.10g} ms"


def link_title(instance: Instance, link: Link, slots: int) -> str:
    """Return what a picture of one link says above both halves."""
    hyperperiod = instance.hyperperiods[link.name]
    whole = f"hyperperiod {milliseconds(instance, hyperperiod)}"
    cut = "" if slots == hyperperiod else f", of which the first {milliseconds(instance, slots)}"
    return f"Link {shorten(link.name, 60)}: capacity {gigabits(link.capacity)}, {whole}{cut}"


# ------------------------------------------------------------------ figures and legends


def new_figure(width: float, height: float) -> Picture:
    """Return an empty figure of `width` by `height` inches, tied to no window and no state."""
    from metronome_opt.plot.picture import Picture

    return Picture(width, height)


def job_entries(jobs: Sequence[Job], link: Link) -> list[Patch]:
    """Return one legend entry for each job, numbered as in the picture; very many are cut off."""
    from matplotlib.patches import Patch

    if not jobs:
        return [note_entry("no job uses this link")]
    entries = [
        Patch(**look(position).patch(), label=f"{position + 1}  {_describe(job, link)}")
        for position, job in enumerate(jobs[:_MOST_ENTRIES])
    ]
    if len(jobs) > _MOST_ENTRIES:
        entries.append(note_entry(f"and {len(jobs) - _MOST_ENTRIES} more"))
    return entries


def note_entry(note: str) -> Patch:
    """Return a legend entry that is only words."""
    from matplotlib.patches import Patch

    return Patch(fill=False, linewidth=0, label=note)


def overload_entry() -> Patch:
    """Return the legend entry of overload."""
    from matplotlib.patches import Patch

    return Patch(**OVERLOAD, label="demand above capacity")


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns of a legend with these labels fit into `width` inches."""
    longest = max(len(label) for label in labels)
    return max(1, min(len(labels), int(width / (0.62 * SMALL / 72 * longest + 0.55))))


def legend_height(entries: Sequence[Any], width: float) -> float:
    """Return the height of a legend in inches."""
    columns = legend_columns([str(entry.get_label()) for entry in entries], width)
    return 0.19 * math.ceil(len(entries) / columns) + 0.15


def add_legend(canvas: Canvas, entries: Sequence[Any], width: float) -> None:
    """Put a legend below everything on a canvas that is `width` inches wide."""
    labels = [str(entry.get_label()) for entry in entries]
    legend = canvas.legend(
        handles=list(entries),
        labels=labels,
        loc="outside lower center",
        ncols=legend_columns(labels, width),
        fontsize=SMALL,
        frameon=False,
        handlelength=2.4,
        handleheight=1.1,
        columnspacing=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # names may contain dollar signs


def _describe(job: Job, link: Link) -> str:
    flows = job.links[link.name]
    many = f", {flows} flows" if flows > 1 else ""
    return f"{shorten(job.name)} (weight {job.weight}{many})"
