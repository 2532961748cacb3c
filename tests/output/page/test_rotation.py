"""Every number of a page is exact while jobs are rotated in a browser."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page

from metronome_opt.output.tables import CUSHION_LEGEND
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import job, network, two_jobs
from tests.output.page.making import (
    assert_shows,
    open_page,
    page_of,
    rotate,
    schedule_of,
    shown,
    wait_for_frames,
)
from tests.strategies import crowded, instances
from tests.tiers import examples

pytestmark = pytest.mark.slow

SUITES = Path(__file__).parents[3] / "benchmarks" / "suites"


def shared() -> Instance:
    """Return three jobs that always overload a link, one of them on another link as well."""
    return network(
        job("heavy", 12, (0, 4, 50), weight=8),
        job("middle", 12, (0, 3, 60), (6, 2, 40), weight=4, links={"link": 2, "other": 1}),
        job("light", 6, (0, 3, 70), links={"link": 1, "other": 1}),
        other=90,
    )


def offsets_after(page: Page, instance: Instance) -> dict[str, int]:
    values = page.locator("[data-offset]").evaluate_all("all => all.map((each) => each.value)")
    return {each.name: int(value) for each, value in zip(instance.jobs, values, strict=True)}


def taken_schedule(page: Page) -> Schedule:
    with page.expect_download() as download:
        page.click("#save-schedule")
    return Schedule.from_dict(json.loads(Path(download.value.path()).read_text()))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Instance, dict[str, int], int, list[dict[str, int]]]:
    """Draw an instance, stretches, how much longer bursts are, and a few choices of offsets."""
    drawn = instances(max_jobs=4, max_links=3, max_stretch=3, weights=(0, 1, 2, 10**20))
    instance = draw(crowded() | drawn)
    stretch = {each.name: draw(st.integers(0, each.max_stretch)) for each in instance.jobs}
    choices = [
        {
            each.name: draw(st.integers(0, each.period + stretch[each.name] - 1))
            if each.fixed_offset is None
            else each.fixed_offset
            for each in instance.jobs
        }
        for _ in range(3)
    ]
    return instance, stretch, draw(st.sampled_from((0, 0, 1, 3))), choices


@pytest.mark.slow
@examples(15)
@given(case=cases())
def test_page_shows_exact_values_of_any_offsets(
    lasting: Page,
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[Instance, dict[str, int], int, list[dict[str, int]]],
) -> None:
    instance, stretch, longer, (first, *others) = case
    schedule = schedule_of(instance, first, stretch, cushion_slots=longer)
    open_page(lasting, tmp_path_factory.getbasetemp(), page_of(instance, schedule))
    assert lasting.is_hidden("#disagreement")
    assert_shows(lasting, evaluate(instance, first, stretch, cushion_slots=longer))
    for offsets in others:
        rotate(lasting, instance, offsets)
        assert_shows(lasting, evaluate(instance, offsets, stretch, cushion_slots=longer))
    taken = taken_schedule(lasting)
    assert taken.offsets == others[-1]
    assert verify_schedule(instance, taken) == ()


@pytest.mark.slow
def test_cushion_is_dash_slots_or_no_limit(lasting: Page, tmp_path: Path) -> None:
    two = network(job("a", 10, (0, 3, 60)), job("b", 10, (0, 3, 60)))
    alone = network(job("a", 10, (0, 3, 60)))
    cases = [(two, {"a": 0, "b": 0}, "–"), (two, {"a": 0, "b": 5}, "2 slots")]
    for instance, offsets, text in [*cases, (alone, {"a": 0}, "no limit")]:
        open_page(lasting, tmp_path, page_of(instance, schedule_of(instance, offsets)))
        assert lasting.text_content('[data-link-value="cushion"]') == text
        assert CUSHION_LEGEND in (lasting.text_content(".summary") or "")


# ------------------------------------------------------------------ by hand


def outer_ring(page: Page) -> tuple[float, float, float]:
    """Return the centre (x, y) and the radius of the outermost ring, whose burst is at the top."""
    knob = page.locator("#circle-now .ring").first.locator(".knob circle").bounding_box()
    face = page.locator("#circle-now svg").bounding_box()
    assert knob is not None
    assert face is not None
    y = face["y"] + face["height"] / 2
    return face["x"] + face["width"] / 2, y, y - (knob["y"] + knob["height"] / 2)


def at_slot(ring: tuple[float, float, float], slot: int) -> tuple[float, float]:
    """Return the position of a slot of twelve."""
    x, y, radius = ring
    angle = math.tau * slot / 12
    return x + radius * math.sin(angle), y - radius * math.cos(angle)


def test_mouse_rotates_ring(page: Page, tmp_path: Path) -> None:
    instance = shared()
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, instance.unshifted)))
    assert shown(page, "contention") == evaluate(instance, instance.unshifted).contention
    ring = outer_ring(page)
    page.mouse.move(*at_slot(ring, 0))
    page.mouse.down()
    for slot in range(1, 6):  # clockwise
        page.mouse.move(*at_slot(ring, slot), steps=3)
    page.mouse.up()
    wait_for_frames(page)
    rotated = {"heavy": 5, "middle": 0, "light": 0}
    assert offsets_after(page, instance) == rotated
    assert_shows(page, evaluate(instance, rotated))


def test_finger_rotates_ring(phone: Page, tmp_path: Path) -> None:
    instance = shared()
    open_page(phone, tmp_path, page_of(instance, schedule_of(instance, instance.unshifted)))
    phone.locator("#circle-now svg").scroll_into_view_if_needed()
    phone.evaluate("() => document.querySelector('#circle-now').scrollIntoView({block: 'center'})")
    ring = outer_ring(phone)
    session = phone.context.new_cdp_session(phone)

    def touch(kind: str, *slots: int) -> None:
        points = [dict(zip("xy", at_slot(ring, slot), strict=True)) for slot in slots]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0)
    for slot in (-1, -2, -3):  # anticlockwise
        touch("touchMove", slot)
    touch("touchEnd")
    wait_for_frames(phone)
    rotated = {"heavy": 9, "middle": 0, "light": 0}
    assert offsets_after(phone, instance) == rotated
    assert_shows(phone, evaluate(instance, rotated))


def test_keyboard_rotates_job(page: Page, tmp_path: Path) -> None:
    instance = two_jobs()
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, {"a": 3, "b": 12})))
    slider = page.get_by_role("slider", name="Offset of a in slots")
    slider.focus()

    def after(*keys: str) -> int:
        for key in keys:
            slider.press(key)
        wait_for_frames(page)
        offsets = offsets_after(page, instance)
        assert_shows(page, evaluate(instance, offsets))
        return offsets["a"]

    assert after("ArrowRight") == 4
    assert after("Shift+ArrowRight") == 14
    assert after("PageDown", "ArrowLeft") == 3
    assert after("ArrowDown", "Shift+ArrowDown") == 32  # round the beginning of its 40 slots
    assert after("End") == 0  # unshifted
    assert after("Home") == 3  # the solver's
    assert slider.get_attribute("aria-valuetext") == "3 of 40 slots, 15 ms"


def test_fixed_job_is_not_rotated(page: Page, tmp_path: Path) -> None:
    instance = network(job("fixed", 8, (0, 4, 60), fixed_offset=2), job("free", 8, (0, 4, 60)))
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, instance.unshifted)))
    assert page.get_by_role("slider", name="Offset of fixed in slots").is_disabled()
    assert page.locator("#circle-now .ring.turnable").count() == 1
    ring = page.locator("#circle-now .ring").first
    ring.locator(".knob circle").drag_to(page.locator("#circle-now svg"), force=True)
    wait_for_frames(page)
    assert offsets_after(page, instance) == {"fixed": 2, "free": 0}


# ------------------------------------------------------------------ taking away


def test_unchanged_schedule_is_downloaded_as_it_is(page: Page, tmp_path: Path) -> None:
    instance = two_jobs()
    schedule = schedule_of(
        instance, {"a": 0, "b": 8}, status="optimal", lower_bound=Fraction(0), seed=2**70
    )
    open_page(page, tmp_path, page_of(instance, schedule))
    assert taken_schedule(page) == schedule


def test_changed_schedule_keeps_true_values_only(page: Page, tmp_path: Path) -> None:
    instance = two_jobs()
    schedule = schedule_of(
        instance,
        {"a": 0, "b": 8},
        status="optimal",
        lower_bound=Fraction(0),
        objectives={"contention": Fraction(0), "wait": Fraction(8)},
    )
    open_page(page, tmp_path, page_of(instance, schedule))
    rotate(page, instance, {"a": 0, "b": 7})
    taken = taken_schedule(page)
    assert verify_schedule(instance, taken) == ()
    assert (taken.status, taken.solver, taken.seed) == ("feasible", "local, turned by hand", None)
    assert list(taken.objectives.items()) == [
        ("contention", Fraction(750)),
        ("wait", Fraction(7)),
    ]
    assert taken.lower_bound == 0  # true of the instance, whatever the offsets
    assert page.is_hidden("#refuted")


@pytest.mark.slow
def test_changed_schedule_drops_simulated_values(page: Page, tmp_path: Path) -> None:
    instance = two_jobs()
    schedule = schedule_of(
        instance,
        {"a": 0, "b": 8},
        {"a": 0, "b": 5},
        stretch_limit=Fraction(1, 4),
        gated={"a": False, "b": True},
        expected_ms={"a": Fraction(200), "b": Fraction(125)},
        objectives={"slowdown": Fraction(21, 20)},
        lower_bound=Fraction(1),
    )
    assert verify_schedule(instance, schedule) == ()
    open_page(page, tmp_path, page_of(instance, schedule, schedule))  # two, to choose from
    assert "slowdown 1.05" in page.inner_text("#points")
    assert taken_schedule(page) == schedule
    rotate(page, instance, {"a": 0, "b": 9})
    taken = taken_schedule(page)
    assert verify_schedule(instance, taken) == ()
    assert (taken.gated, taken.expected_ms, taken.lower_bound) == (None, None, None)
    assert (taken.stretch["b"], taken.stretch_limit) == (5, Fraction(1, 4))
    assert list(taken.objectives) == ["contention", "latency"]
    assert page.is_hidden("#refuted")


@pytest.mark.slow
def test_refuted_bound_is_dropped_with_notice(page: Page, tmp_path: Path) -> None:
    instance = network(job("a", 8, (0, 4, 60), ready=2), job("b", 8, (0, 4, 60)))
    offsets = {"a": 2, "b": 0}
    bound = evaluate(instance, offsets).contention  # the judge has nothing to refute it with
    schedule = schedule_of(instance, offsets, lower_bound=bound)
    assert verify_schedule(instance, schedule) == ()
    open_page(page, tmp_path, page_of(instance, schedule))
    assert page.is_hidden("#refuted")
    rotate(page, instance, {"a": 4, "b": 0})
    assert page.is_visible("#refuted")
    assert taken_schedule(page).lower_bound is None


@pytest.mark.slow
def test_javascript_properties_are_valid_names(page: Page, tmp_path: Path) -> None:
    names = ["__proto__", "10", "9", "constructor", "toString"]
    instance = network(*(job(name, 6, (0, 2, 60)) for name in names))
    open_page(page, tmp_path, page_of(instance, schedule_of(instance, instance.unshifted)))
    offsets = {name: number for number, name in enumerate(names)}
    rotate(page, instance, offsets)
    assert list(taken_schedule(page).offsets.items()) == list(offsets.items())


# ------------------------------------------------------------------ several schedules


@pytest.mark.slow
def test_page_of_several_schedules_offers_choice(page: Page, tmp_path: Path) -> None:
    instance = shared()
    choices = [
        {"heavy": 0, "middle": 0, "light": 0},
        {"heavy": 6, "middle": 1, "light": 4},
    ]
    text = page_of(instance, *(schedule_of(instance, offsets) for offsets in choices))
    open_page(page, tmp_path, text)
    assert_shows(page, evaluate(instance, choices[0]))
    rotate(page, instance, {"heavy": 1, "middle": 2, "light": 3})
    page.select_option("#points", "1")
    assert_shows(page, evaluate(instance, choices[1]))
    assert page.inner_text("#turned") == "as the solver left it"
    page.locator("#front-dots .dot").first.click()
    assert page.input_value("#points") == "0"
    assert_shows(page, evaluate(instance, choices[0]))
