"""Pages, and queries to a page in a browser."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from metronome_opt.output.page.assemble import build_page
from metronome_opt.output.page.sources import Point
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.verify import evaluate
from tests.builders import schedule

# Sets offsets through the table of jobs; the page follows at the next frame.
_ROTATE = """async (offsets) => {
  for (const [job, offset] of Object.entries(offsets)) {
    const input = document.querySelector(`[data-offset="${job}"]`);
    input.value = offset;
    input.dispatchEvent(new Event("change"));
  }
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
_READ = """() => {
  const read = (selector, key) => {
    const found = [...document.querySelectorAll(selector)];
    return Object.fromEntries(found.map((each) => [key(each), each.querySelector("data").value]));
  };
  const name = (each) => each.querySelector(".name").textContent;
  return {
    values: read("#values [data-now]", (each) => each.dataset.now),
    links: read("#link-list li", name),
  };
}"""


def schedule_of(
    instance: Instance,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int] | None = None,
    *,
    cushion_slots: int = 0,
    **stated: Any,
) -> Schedule:
    """Return a true schedule."""
    limit = stated.get("stretch_limit")
    judged = evaluate(instance, offsets, stretch, cushion_slots=cushion_slots, stretch_limit=limit)
    fields = {
        "stretch": stretch or {},
        "objectives": dict(judged.objectives),
        "solver": "local",
        "seed": 7,
        "versions": {"python": "3.12"},
        "cushion_slots": cushion_slots,
        **stated,
    }
    return schedule(instance.name, offsets, **fields)


def page_of(instance: Instance, *schedules: Schedule) -> str:
    """Return the page of schedules of an instance."""
    points = [
        Point(Path(f"point-{number:03}.json"), each) for number, each in enumerate(schedules, 1)
    ]
    return build_page(PlacedInstance(instance), points)


def open_page(page: Page, folder: Path, text: str) -> None:
    """Open a page from disk and wait until it is drawn."""
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    page.goto(file.as_uri())
    page.wait_for_selector("body.ready", state="attached")


def rotate(page: Page, instance: Instance, offsets: Mapping[str, int]) -> None:
    """Rotate jobs to offsets."""
    page.evaluate(
        _ROTATE,
        {
            str(index): offsets[job.name]
            for index, job in enumerate(instance.jobs)
            if job.fixed_offset is None
        },
    )


def assert_shows(page: Page, judged: Evaluation) -> None:
    """Compare every number of a page with `evaluate`."""
    seen = page.evaluate(_READ)
    scores = {"score_mean": judged.score_mean, "score_min": judged.score_min}
    assert seen["values"] == texts({**judged.objectives, **scores})
    used = {link.name: link.contention for link in judged.links if link.jobs}
    assert seen["links"] == texts(used)


def texts(values: Mapping[str, Fraction | None]) -> dict[str, str]:
    """Return exact values as a page has them in its attributes."""
    return {name: "null" if value is None else str(value) for name, value in values.items()}


def shown(page: Page, name: str) -> Fraction:
    """Return the exact value of a figure at the top."""
    return Fraction(page.locator(f'#figures [data-value="{name}"]').get_attribute("value") or "")


def wait_for_frames(page: Page) -> None:
    """Wait until a rotation is drawn."""
    page.evaluate("() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))")
