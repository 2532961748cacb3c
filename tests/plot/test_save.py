from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from metronome_opt.errors import InputError
from metronome_opt.plot import (
    plot_circle,
    plot_heatmap,
    plot_overview,
    plot_timeline,
    save_figure,
)
from metronome_opt.plot.picture import Picture
from tests.plot.examples import AFTER, BEFORE, HEAVY, LIGHT, instance

FIGURES: dict[str, Callable[[], Figure]] = {
    "circle": lambda: plot_circle(instance(), BEFORE, AFTER, "node-0"),
    "timeline": lambda: plot_timeline(instance(), BEFORE, AFTER, "node-0"),
    "heatmap": lambda: plot_heatmap(instance(), BEFORE, AFTER),
    "overview": lambda: plot_overview(instance(), BEFORE, AFTER),
}
MAGIC = {".svg": b"<?xml", ".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, ".svg") for name in FIGURES), ("timeline", ".PNG"), ("timeline", ".pdf")],
)
def test_files_are_what_they_say_and_always_the_same(
    tmp_path: Path, name: str, suffix: str
) -> None:
    make = FIGURES[name]
    first, second, third = (tmp_path / f"{number}{suffix}" for number in "123")
    figure = make()
    save_figure(figure, first)
    save_figure(figure, second)
    save_figure(make(), third)
    assert first.read_bytes().startswith(MAGIC[suffix.lower()])
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted([first, second, third])


def test_svg_holds_text_as_text(tmp_path: Path) -> None:
    save_figure(FIGURES["overview"](), tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    said = {"".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")}
    assert f"1  {HEAVY} (weight 4)" in said
    assert f"2  {LIGHT} (weight 1, 2 flows)" in said
    assert "before: contention 2,083 weight × Mbit/s" in said
    assert root[0].text == "example: 2 jobs on 1 link"  # the title, read aloud first


@pytest.mark.parametrize("name", ["a.gif", "a", "a.svg.gz"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"end it in \.svg, \.png or \.pdf"):
        save_figure(FIGURES["timeline"](), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        save_figure(FIGURES["timeline"](), tmp_path / "none" / "a.svg")


def test_a_failure_leaves_the_previous_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.svg"
    path.write_text("before")
    figure = FIGURES["timeline"]()
    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(InputError, match="No space left on device"):
        save_figure(figure, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_letters_that_the_font_lacks_do_not_warn(tmp_path: Path) -> None:
    example = instance()
    foreign = example.replace(
        jobs=(example.jobs[0].model_copy(update={"name": "作业"}), example.jobs[1])
    )
    offsets = {"作业": 0, HEAVY: 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(plot_timeline(foreign, offsets, offsets, "node-0"), tmp_path / "a.svg")
    assert "作业" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_notebook_shows_the_picture() -> None:
    figure = FIGURES["timeline"]()
    assert isinstance(figure, Picture)
    assert figure._repr_png_().startswith(MAGIC[".png"])
