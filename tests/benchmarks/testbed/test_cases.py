"""Cases say what they seem to say, as instances too, and what is wrong with them in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.testbed.cases import STORED, Case, read_cases
from benchmarks.testbed.modes import STRETCH
from metronome_opt.errors import InputError

GOOD = """\
format: metronome-testbed/1
cases:
- name: pair
  split: test
  jobs:
  - {period: 400, bursts: [[0, 100], [200, 50]]}
  - {period: 300, bursts: [[0, 90]], racks: [1, 0]}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text)
    return path


# ------------------------------------------------------------------ what is stored


@pytest.mark.parametrize("stretch", sorted(set(STRETCH.values())))
def test_every_case_is_an_instance_in_which_bursts_are_as_long_as_stated(stretch: float) -> None:
    for case in read_cases(STORED):
        instance = case.instance(stretch)
        assert (instance.name, instance.slot_ms) == (case.name, 1)
        assert [job.name for job in instance.jobs] == case.job_names
        capacity = {link.name: link.capacity for link in instance.links}
        for job, stated in zip(instance.jobs, case.jobs, strict=True):
            bursts = tuple((phase.start, phase.length) for phase in job.phases)
            assert bursts == stated.bursts
            assert stated.period <= job.period <= 1.05 * stated.period
            # Nothing but other jobs makes a burst longer.
            assert all(phase.rate <= capacity[link] for phase in job.phases for link in job.links)


# ------------------------------------------------------------------ worked out by hand


def test_periods_with_idle_time_are_the_next_whole_milliseconds() -> None:
    jobs = [{"period": period, "bursts": [[0, 10]]} for period in (50, 100, 75, 350)]
    case = Case.model_validate({"name": "case", "split": "test", "jobs": jobs})
    assert case.periods(0.02) == {"a": 51, "b": 102, "c": 77, "d": 357}
    assert case.periods(0.04) == {"a": 52, "b": 104, "c": 78, "d": 364}


# ------------------------------------------------------------------ what is refused


ALL = GOOD.partition("cases:\n")[2]
BAD = [
    ("[200, 50]", "[99, 50]", "cases[0].jobs[0].bursts[1]: begins at 99, before 100"),
    ("[200, 50]", "[351, 50]", "cases[0].jobs[0].bursts: end at 401, after the period of 400"),
    ("[1, 0]", "[1, 2]", "cases[0].jobs[1].racks: must be two or more of the 2 racks, each once"),
    ("racks", "end: 60, begin: 60, racks", "jobs[1].end: at 60, not after the beginning at 60"),
    ("racks", "end: 12001, racks", "jobs[1]: is there after the end of the run, 12 s"),
    ("test\n", "test\n  program: ddp\n", "jobs[0]: a job of DDP states iterations and has one"),
    (ALL, ALL + ALL, "cases: 'pair' is there 2 times"),
]


@pytest.mark.parametrize(("old", "new", "said"), BAD, ids=lambda text: text[:24].strip())
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_cases(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert said in line
    assert "\n" not in line
