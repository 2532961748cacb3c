"""A page is usable on a phone, in the dark, by keyboard, with hostile names, and if large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from metronome_opt.output.page.assemble import read_asset
from metronome_opt.problem.instance import Instance
from metronome_opt.verify import evaluate
from tests.builders import job, network, tangle, two_jobs
from tests.output.page.making import open_page, page_of, schedule_of, shown, wait_for_frames

pytestmark = pytest.mark.slow

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "<!--<script>",
    "{{script}} & &lt;b&gt;",
]


def report(instance: Instance) -> str:
    return page_of(instance, schedule_of(instance, instance.unshifted))


def styles() -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): ([^;]+);", read_asset("page.css")))


def colour(name: str, mode: int) -> str:
    """Return a colour of the style sheet in light (0) or dark (1)."""
    value = styles()[name]
    pair = re.fullmatch(r"light-dark\((#\w{6}), (#\w{6})\)", value)
    return pair[1 + mode] if pair else value


# ------------------------------------------------------------------ what is read


def test_links_are_sorted_by_contention(page: Page, tmp_path: Path) -> None:
    a = job("a", 10, (0, 4, 60), links={"link": 1, "m": 1})
    b, c = job("b", 10, (0, 4, 60)), job("c", 10, (5, 4, 70), links={"m": 1})
    instance = network(a, b, c, m=100)
    # Unshifted only a and b meet, on link; as solved a and c do, on m, which loses more.
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, {"a": 5, "b": 0, "c": 0})))
    names = page.locator("#link-list .name")
    assert names.all_inner_texts() == ["m", "link"]
    assert page.locator("#link-list .figures").all_inner_texts() == ["0 → 12", "8 → 0"]
    page.select_option("#link-sort", "unshifted")
    assert names.all_inner_texts() == ["link", "m"]
    assert page.locator('#link-list [aria-selected="true"] .name').inner_text() == "m"


# ------------------------------------------------------------------ where it is read


def test_phone_needs_no_horizontal_scrolling(phone: Page, tmp_path: Path) -> None:
    long = "a-name-that-is-much-longer-than-a-phone-is-wide-" * 5
    instance = network(job(long, 30, (0, 20, 60)), job("b", 30, (0, 20, 60)), **{long: 100})
    open_page(phone, tmp_path, report(instance))
    assert phone.evaluate("() => document.documentElement.scrollWidth") == 390
    for cell in phone.locator("#job-rows td, #values td").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    phone.get_by_role("button", name="b: one slot later").tap()
    wait_for_frames(phone)
    offsets = {long: 0, "b": 1}
    assert shown(phone, "contention") == evaluate(instance, offsets).contention


def test_dark_mode_follows_browser_and_switch(dark: Page, tmp_path: Path) -> None:
    open_page(dark, tmp_path, report(two_jobs()))

    def ground() -> str:
        seen: str = dark.evaluate("() => getComputedStyle(document.body).backgroundColor")
        red, green, blue = map(int, re.findall(r"\d+", seen))
        return f"#{red:02x}{green:02x}{blue:02x}"

    assert ground() == colour("ground", 1)
    dark.get_by_role("button", name="Light mode").click()
    assert ground() == colour("ground", 0)
    dark.get_by_role("button", name="Dark mode").click()
    assert ground() == colour("ground", 1)


def test_keyboard_reaches_every_control(page: Page, tmp_path: Path) -> None:
    instance = network(
        job("a", 8, (0, 4, 60), links={"link": 1, "other": 1}),
        job("b", 8, (0, 4, 60), links={"link": 1, "other": 1}),
        job("c", 8, (0, 4, 60), links={"link": 1, "other": 1}),
        other=150,
    )
    open_page(page, tmp_path, report(instance))
    reached: list[list[str]] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => {
              const at = document.activeElement;
              const outline = getComputedStyle(at).outlineStyle;
              return [at.id || at.getAttribute("role") || at.ariaLabel || at.tagName, outline];
            }"""
        )
        if at[0] == "BODY" or at in reached[:1]:  # behind the last one
            break
        reached.append(at)
    names = [name for name, _ in reached]
    assert names.count("option") == 1  # the list of links is one stop; arrows move within it
    assert {"theme", "copy-schedule", "link-search", "job-search"} <= set(names)
    assert sum(name == "Offset of a in slots" for name in names) == 2  # a slider and a field
    assert [name for name, outline in reached if outline == "none"] == []


# ------------------------------------------------------------------ what is in it


def test_markup_in_names_is_text(page: Page, tmp_path: Path) -> None:
    instance = network(
        *(job(name, 6, (0, 2, 60), links={HOSTILE[0]: 1, HOSTILE[1]: 1}) for name in HOSTILE),
        **{HOSTILE[0]: 100, HOSTILE[1]: 100},
    ).replace(name=HOSTILE[1])
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    open_page(page, tmp_path, report(instance))
    assert page.inner_text("#title") == HOSTILE[1]
    assert page.locator("#job-rows .name").all_inner_texts() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    for name in HOSTILE[:2]:
        page.fill("#link-search", name)
        assert page.locator("#link-list .name").all_inner_texts() == [name]


@pytest.mark.slow
def test_large_fabric_is_drawn_in_parts_and_searched(page: Page, tmp_path: Path) -> None:
    instance = tangle(400, 300, 1, periods=(40, 50, 100), lengths=(5, 10))
    open_page(page, tmp_path, report(instance))
    assert page.locator("#link-list li").count() == 40
    losses = page.locator("#link-list .loss").all_inner_texts()
    ordered = [float(text.replace(",", "")) for text in losses]
    assert ordered == sorted(ordered, reverse=True)
    page.fill("#link-search", "link-277")
    page.locator("#link-list li").click()
    assert page.inner_text("#link-name") == "link-277"
    page.fill("#job-search", "job-39")
    assert page.inner_text("#job-count") == "11 jobs"  # 39 and 390 to 399
    page.get_by_role("button", name="job-399", exact=True).click()
    slider = page.get_by_role("slider", name="Offset of job-399 in slots")
    slider.press("Shift+ArrowRight")
    wait_for_frames(page)
    turned = {**instance.unshifted, "job-399": 10}
    assert shown(page, "contention") == evaluate(instance, turned).contention


def test_instance_without_links_is_shown(page: Page, tmp_path: Path) -> None:
    instance = Instance.from_dict(
        {
            "format": "metronome-instance/1",
            "name": "alone",
            "slot_ms": 5,
            "links": [],
            "jobs": [job("a", 8, (0, 4, 60), links={}).model_dump()],
        }
    )
    open_page(page, tmp_path, report(instance))
    assert page.is_hidden("#stage")
    page.locator('[data-offset="0"]').fill("3")
    page.locator('[data-offset="0"]').press("Enter")
    wait_for_frames(page)
    assert page.locator('#values [data-now="wait"] data').get_attribute("value") == "3"


def test_unknown_unshifted_values_are_left_out(page: Page, tmp_path: Path) -> None:
    jobs = [
        job("a", 101, (0, 40, 60), max_stretch=9).model_dump(),
        job("b", 103, (0, 40, 60), max_stretch=7).model_dump(),
    ]
    document = {**network(job("a", 8, (0, 4, 60))).to_dict(), "jobs": jobs}
    instance = Instance.from_dict(document, hyperperiod_limit=1000)
    assert instance.needs_stretch
    offsets, stretch = {"a": 0, "b": 50}, {"a": 9, "b": 7}
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, offsets, stretch)))
    assert page.is_hidden("figure.before >> nth=0")
    assert shown(page, "contention") == evaluate(instance, offsets, stretch).contention
    assert "unshifted not known" in page.inner_text("#figures")
