"""An instance is valid, immutable and equal to its document, or refused in one line."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT, Instance, Link, Phase, read_instance
from tests.strategies import instances
from tests.tiers import examples

DOCUMENT: dict[str, Any] = {
    "format": "metronome-instance/1",
    "name": "two-jobs",
    "slot_ms": 5,
    "links": [{"name": "node-0", "capacity": 50000}, {"name": "node-1", "capacity": 25000}],
    "jobs": [
        {
            "name": "vgg19-0",
            "period": 40,
            "weight": 4,
            "ready": 90,
            "max_stretch": 2,
            "phases": [
                {"start": 20, "length": 20, "rate": 10000},
                {"start": 0, "length": 12, "rate": 40000},
            ],
            "links": {"node-0": 1, "node-1": 2},
            "fixed_offset": None,
            "current_offset": 41,
        },
        {
            "name": "bert-0",
            "period": 60,
            "phases": [{"start": 0, "length": 30, "rate": 20000}],
            "links": {"node-0": 1},
            "fixed_offset": 59,
        },
    ],
}

Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


# ------------------------------------------------------------------ what is read


def test_fields_and_defaults() -> None:
    instance = Instance.from_dict(DOCUMENT)
    vgg, bert = instance.jobs
    assert (instance.name, instance.slot_ms) == ("two-jobs", 5)
    assert instance.links == (
        Link(name="node-0", capacity=50000),
        Link(name="node-1", capacity=25000),
    )
    assert vgg.phases[0] == Phase(start=20, length=20, rate=10000)
    assert (vgg.weight, vgg.ready, vgg.max_stretch, vgg.current_offset) == (4, 90, 2, 41)
    assert (bert.weight, bert.ready, bert.max_stretch) == (1, 0, 0)
    assert (bert.fixed_offset, bert.current_offset) == (59, None)


def test_views() -> None:
    instance = Instance.from_dict(DOCUMENT)
    vgg = instance.job("vgg19-0")
    assert vgg.volume == 20 * 10000 + 12 * 40000
    assert vgg.peak == 40000
    assert vgg.phases[1].end == 12
    assert instance.jobs_on == {"node-0": (0, 1), "node-1": (0,)}
    assert instance.hyperperiods == {"node-0": 120, "node-1": 40}
    unused = instance.replace(links=(*instance.links, Link(name="spare", capacity=1)))
    assert (unused.jobs_on["spare"], unused.hyperperiods["spare"]) == ((), 1)


@given(instances(max_stretch=3))
@examples(50, deadline=None)
def test_document_restores_instance(instance: Instance) -> None:
    again = Instance.from_dict(json.loads(json.dumps(instance.to_dict())))
    assert again == instance
    assert hash(again) == hash(instance)
    assert pickle.loads(pickle.dumps(instance)) == instance
    assert copy.deepcopy(instance) == instance
    assert [list(job.links) for job in again.jobs] == [list(job.links) for job in instance.jobs]


@pytest.mark.parametrize("jitter", [-0.1, 1.01, "unknown", True, math.nan])
def test_jitter_is_a_share(jitter: object) -> None:
    with pytest.raises(InputError, match=r"^jobs\[1\]\.jitter: "):
        Instance.from_dict(changed(lambda document: document["jobs"][1].update(jitter=jitter)))


def test_unknown_jitter_is_not_written() -> None:
    document = changed(lambda document: document["jobs"][1].update(jitter=0.03))
    unknown, known = Instance.from_dict(document).to_dict()["jobs"]
    assert ("jitter" in unknown, known["jitter"]) == (False, 0.03)


def test_instance_is_immutable() -> None:
    instance = Instance.from_dict(DOCUMENT)
    with pytest.raises(ValidationError):
        instance.name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        instance.jobs[0].period = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        instance.jobs[0].links["node-0"] = 2  # type: ignore[index]
    with pytest.raises(TypeError):
        instance.hyperperiods["node-0"] = 2  # type: ignore[index]
    document = copy.deepcopy(DOCUMENT)
    built = Instance.from_dict(document)
    document["jobs"][0]["links"]["node-0"] = 9
    assert built == instance


def test_replace_validates_copy() -> None:
    instance = Instance.from_dict(DOCUMENT)
    other = instance.replace(name="other", jobs=instance.jobs[:1])
    assert (other.name, len(other.jobs), other.links) == ("other", 1, instance.links)
    assert other.hyperperiods["node-0"] == 40  # nothing cached is carried over
    with pytest.raises(InputError, match=r"^jobs\[0\]\.links\.node-0: there is no such link"):
        instance.replace(links=instance.links[1:])
    with pytest.raises(InputError, match=r"^slots: unknown field"):
        instance.replace(slots=1)


def test_notebook_view() -> None:
    instance = Instance.from_dict(DOCUMENT).replace(name="<b>")
    frame = instance.to_frame()
    assert list(frame.index) == ["vgg19-0", "bert-0"]
    assert frame.loc["vgg19-0", "links"] == "node-0, 2 x node-1"
    assert frame.loc["bert-0", "duty"] == 0.5
    page = instance._repr_html_()
    assert "2 jobs over 2 links" in page
    assert "<b><b></b>" not in page


# ------------------------------------------------------------------ what is refused


def test_messages_about_long_values_are_short() -> None:
    # Longer than what Python turns into text at all; no file can hold such a number.
    for field, value in (("start", 9 * 10**4299), ("length", 9 * 10**4299), ("rate", -(10**5000))):
        job = {"phases": [{"start": 0, "length": 1, "rate": 1, field: value}]}
        with pytest.raises(InputError) as caught:
            Instance.from_dict(changed(lambda d, job=job: d["jobs"][1].update(job)))  # type: ignore[misc]
        assert str(caught.value).startswith("jobs[1].phases[0].")
        assert len(str(caught.value)) < 200


def meeting(*jobs: tuple[int, int], limit: int = HYPERPERIOD_LIMIT) -> Instance:
    """Return jobs on one link, of periods that may be stretched by so many slots."""
    document = changed(lambda d: d.update(links=[{"name": "link", "capacity": 1}]))
    document["jobs"] = [
        {
            "name": f"job-{index}",
            "period": period,
            "max_stretch": stretch,
            "phases": [{"start": 0, "length": 1, "rate": 1}],
            "links": {"link": 1},
        }
        for index, (period, stretch) in enumerate(jobs)
    ]
    return Instance.from_dict(document, hyperperiod_limit=limit)


def test_long_hyperperiod_is_accepted_if_jobs_can_be_stretched() -> None:
    awkward = ((137, 7), (211, 11), (350, 18))
    instance = meeting(*awkward)
    assert instance.hyperperiods["link"] == 137 * 211 * 350
    assert instance.hyperperiod_limit == HYPERPERIOD_LIMIT  # and not raised to what there is
    assert instance.needs_stretch
    assert instance.replace(name="again").needs_stretch
    assert pickle.loads(pickle.dumps(meeting(*awkward, limit=10**5))).hyperperiod_limit == 10**5
    assert not meeting(*awkward, limit=137 * 211 * 350).needs_stretch
    meeting(*awkward).check_hyperperiods(may_stretch=True)
    with pytest.raises(
        InputError, match=f"a hyperperiod of {999 * 1009} slots on link 'link', abo"
    ):
        meeting((999, 0), (1009, 0)).check_hyperperiods(may_stretch=True)
    meeting((999, 0), (1009, 0)).check_hyperperiods({"job-0": 10})


def test_default_hyperperiod_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HYPERPERIOD_LIMIT == 1_000_000
    fits = changed(lambda d: (d["jobs"][0].update(period=1000), d["jobs"][1].update(period=997)))
    assert Instance.from_dict(fits).hyperperiods["node-0"] == 997_000
    long = changed(lambda d: (d["jobs"][0].update(period=1001), d["jobs"][1].update(period=1003)))
    long["jobs"][0]["max_stretch"] = 0
    with pytest.raises(InputError, match="1004003 slots on link 'node-0', above the limit of 1"):
        Instance.from_dict(long).check_hyperperiods()
    path = tmp_path / "long.json"
    path.write_text(json.dumps(long))
    monkeypatch.setenv("METRONOME_HYPERPERIOD_LIMIT", "2000000")
    instance = read_instance(path)
    assert instance.hyperperiods["node-0"] == 1_004_003
    assert instance.hyperperiod_limit == 2_000_000
    assert instance.replace(name="still allowed").name == "still allowed"
    monkeypatch.setenv("METRONOME_HYPERPERIOD_LIMIT", "many")
    with pytest.raises(InputError, match="METRONOME_HYPERPERIOD_LIMIT: must be a number of slots"):
        read_instance(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Link(name="l"), "Link: capacity: missing"),  # type: ignore[call-arg]
        (lambda: Link(name="l", capacity=0), "Link: capacity: must be at least 1, got 0"),
        (
            lambda: Link("l", 5),  # type: ignore[call-arg]
            "Link: takes its fields by name: Link(name=..., capacity=...)",
        ),
        (
            lambda: Instance(**{**DOCUMENT, "slot_ms": 0.5}),
            "Instance: slot_ms: must be an integer, got 0.5",
        ),
        (
            lambda: Instance(**{**DOCUMENT, "links": []}),
            "Instance: jobs[0].links.node-0: there is no such link",
        ),
    ],
)
def test_wrong_python_values_are_refused_in_one_line(make: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(said)
