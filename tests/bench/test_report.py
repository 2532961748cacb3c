"""A report shows the numbers of a small campaign that are worked out by hand."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from metronome_opt.bench.report import plot_profile, write_report
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.errors import InputError
from metronome_opt.output.figures.style import three_digits
from tests.bench.report_examples import moments, record, rows, section_of

# Two instances, of best values 0 and 100. The penalised times of `auto` are 1 and 1 s on the first,
# 3 and 20 s on the second; both others never prove anything and count 20 s each time.
CAMPAIGN = (
    record("paper-a", "auto", 0, lower_bound=0, runtime_s=1.0, trajectory=moments((0.5, 0))),
    record("paper-a", "auto", 0, lower_bound=0, runtime_s=1.0, seed=1),
    record(
        "paper-b",
        "auto",
        100,
        lower_bound=100,
        runtime_s=3.0,
        trajectory=moments((1, 200), (3, 100)),
    ),
    record("paper-b", "auto", 110, lower_bound=99, trajectory=moments((2, 110)), seed=1),
    record("paper-a", "cpsat-textbook", 10, lower_bound=0),
    record("paper-b", "cpsat-textbook", kind="crash", runtime_s=None, error="signal 6 | aborted"),
    record("paper-a", "greedy", 10, runtime_s=2.0),
    record("paper-b", "greedy", 120, runtime_s=2.0),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "new" / "folder"
    assert write_report(CAMPAIGN, path) == path / "report.html"
    return path


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


TABLES = {
    "How the cases ended": {
        "auto": ["2", "4", "3", "1", "0", "0", "0", "0", "0"],
        "cpsat-textbook": ["2", "2", "0", "1", "0", "0", "0", "1", "0"],
        "greedy": ["2", "2", "0", "2", "0", "0", "0", "0", "0"],
    },
    # Times: sqrt(2 sqrt(4 * 21)) - 1 = 3.281; (1 + 11.5) / 2.
    # auto: primal gaps 0, 0; 0, 10/110, so (0 + 1/22) / 2. Integrals 0.05, 0.1;
    # (1 + 2/2) / 10, (2 + 8/11) / 10. Certified 0, 0; 0, 11/110.
    # greedy: gaps 1 and 20/120; integrals 1 and (2 + 8/6) / 10.
    "Time to a proof of optimality, failures included, and gaps": {
        "auto": [
            *("75.00 %", "3.28", "6.25"),
            *("2.27 %", "9.09 %", "15.57 %", "2.50 %", "10.00 %"),
        ],
        "cpsat-textbook": ["0.00 %", "20.0", "20.0", *["100.00 %"] * 5],
        "greedy": [
            *("0.00 %", "20.0", "20.0"),
            *("58.33 %", "100.00 %", "66.67 %", "-", "-"),
        ],
    },
}


@pytest.mark.parametrize("caption", TABLES)
def test_numbers(caption: str, text: str) -> None:
    table = rows(text, caption)
    assert {name: table[name] for name in TABLES[caption]} == TABLES[caption]


def test_page_is_one_file(text: str) -> None:
    assert text.count('src="data:image/svg+xml;base64,') == 2
    assert not re.search(r'(src|href)="(?!data:)', text)


def test_the_same_records_make_the_same_files(folder: Path, tmp_path: Path) -> None:
    write_report(CAMPAIGN, tmp_path)
    for path in folder.rglob("*.*"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_names_are_text(tmp_path: Path) -> None:
    text = report(tmp_path, record("p", "<a> & *b*|x_1 $5", 5))
    assert "<tr><td>&lt;a&gt; &amp; *b*|x_1 $5</td>" in text


def test_csv_has_each_case_and_leaves_unknown_values_empty(folder: Path) -> None:
    text = (folder / "records.csv").read_text(encoding="utf-8")
    cases = list(csv.DictReader(io.StringIO(text)))
    assert len(cases) == len(CAMPAIGN)
    assert "nan" not in text.lower()
    half, crashed = cases[3], cases[5]
    assert [half[name] for name in ("value", "lower_bound", "best_value", "jobs")] == [
        *("110", "99", "100", "2"),
    ]
    assert float(half["primal_gap"]) == pytest.approx(1 / 11)
    assert (half["solved"], half["penalised_s"]) == ("False", "20.0")
    assert (crashed["kind"], crashed["error"]) == ("crash", "signal 6 | aborted")
    for name in ("value", "lower_bound", "runtime_s", "certified_gap"):
        assert crashed[name] == ""


# ------------------------------------------------------------------ other campaigns


def report(folder: Path, *records: SolverRecord) -> str:
    return write_report(records, folder).read_text(encoding="utf-8")


def test_a_campaign_of_failures(tmp_path: Path) -> None:
    kinds = ("no_schedule", "infeasible", "out_of_memory", "crash", "invalid")
    text = report(tmp_path, *(record("p", kind, kind=kind, runtime_s=None) for kind in kinds))
    assert text.count("<img") == 1
    _, measures = TABLES
    expected = ["0.00 %", "20.0", "20.0", *["100.00 %"] * 3, "-", "-"]
    table = rows(text, measures)
    assert {kind: table[kind] for kind in kinds} == dict.fromkeys(kinds, expected)


def test_solver_that_did_not_run_everywhere_is_marked_and_not_drawn(tmp_path: Path) -> None:
    solved = {"lower_bound": 5, "runtime_s": 1.0}
    records = [record(name, solver, 5, **solved) for name, solver in ("pa", "qa", "pb")]
    assert list(rows(report(tmp_path, *records), "How the cases ended")) == ["", "a", "b *"]
    lines = plot_profile(section_of(*records)).get_lines()
    assert [line.get_label() for line in lines] == ["a"]


def test_no_records_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to report"):
        write_report([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), (float("inf"), "-"), (0, "0"), (0.00123, "0.00123"), (0.09996, "0.100")),
        *((9.996, "10.0"), (99.96, "100"), (1234.5, "1,234"), (-0.5, "-0.500")),
    ],
)
def test_three_digits(value: float | None, text: str) -> None:
    assert three_digits(value) == text
