"""``python -m tests.output.page.picture FILE``: the picture that docs/report.md shows."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from metronome_opt import load, solve
from metronome_opt.output.page.assemble import build_page
from metronome_opt.output.page.sources import Point
from tests.output.page.making import open_page


def take_picture(target: Path) -> None:
    """Solve the shipped scenario, open its page, and write what is seen of it as PNG."""
    problem = load("paper-24")
    schedule = solve(problem.instance, time_limit=10).schedule
    text = build_page(problem, [Point(Path("schedule.json"), schedule)])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1180})
        open_page(page, Path(folder), text)
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    take_picture(Path(sys.argv[1]))
