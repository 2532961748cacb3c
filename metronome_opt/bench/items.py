"""What a report is made of: text, tables and drawings, and how they read in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from metronome_opt.bench.tables import Table, markdown_text, to_markdown

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from metronome_opt.plot.picture import Picture


@dataclass(frozen=True)
class Drawing:
    """A figure, the name of its files without suffix, and what it shows in a sentence."""

    name: str
    caption: str
    figure: Picture


Item = str | Table | Drawing


def item_markdown(item: Item) -> str:
    """Return an item as it stands in a report whose figures lie in ``figures/``."""
    if isinstance(item, Table):
        return f"{markdown_text(item.caption)}:\n\n{to_markdown(item)}"
    if isinstance(item, Drawing):
        return f"![{item.caption}](figures/{item.name}.svg)\n\n{item.caption}\n"
    return item


class Slugged(Protocol):
    """A dataclass with a name that is fit for files."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def slug(self) -> str:
        """The name."""


S = TypeVar("S", bound=Slugged)


def with_distinct_slugs(chapters: Sequence[S]) -> tuple[S, ...]:
    """Return chapters with slugs that differ, since these name files."""
    taken: set[str] = set()
    distinct = []
    for chapter in chapters:
        slug, count = chapter.slug, 1
        while slug in taken:
            count += 1
            slug = f"{chapter.slug}-{count}"
        taken.add(slug)
        distinct.append(replace(chapter, slug=slug))
    return tuple(distinct)
