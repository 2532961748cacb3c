"""A small campaign whose every number was worked out by hand, and campaigns that went wrong."""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.lines import Line2D

from metronome_opt.bench.figures import plot_cactus, plot_profile, strokes
from metronome_opt.bench.pages import exact, three_digits
from metronome_opt.bench.report import write_report
from metronome_opt.bench.trials import Record
from metronome_opt.errors import InputError
from metronome_opt.plot.picture import Picture
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
    assert write_report(CAMPAIGN, path, baseline="cpsat-textbook") == path / "report.md"
    return path


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def flat(text: str) -> str:
    """Return text in one line."""
    return " ".join(text.split())


# ------------------------------------------------------------------ the numbers


TABLES = {
    "how the cases ended": {
        "": [
            *("solver", "instances", "cases", "optimal", "feasible", "no schedule", "infeasible"),
            *("out of memory", "crash", "invalid"),
        ],
        "auto": ["2", "4", "3", "1", "0", "0", "0", "0", "0"],
        "cpsat-textbook": ["2", "2", "0", "1", "0", "0", "0", "1", "0"],
        "greedy": ["2", "2", "0", "2", "0", "0", "0", "0", "0"],
    },
    # sqrt(2 sqrt(4 * 21)) - 1 = 3.281; sqrt(11 sqrt(13 * 30)) - 10 = 4.739; (1 + 11.5) / 2;
    # 20 / 3.281 = 6.095
    "time to a proof of optimality, failures included": {
        "auto": ["75.00 %", "3.28", "4.74", "6.25", "6.09"],
        "cpsat-textbook": ["0.00 %", "20.0", "20.0", "20.0", "1.00"],
        "greedy": ["0.00 %", "20.0", "20.0", "20.0", "1.00"],
    },
    # auto: primal gaps 0, 0; 0, 10/110, so (0 + 1/22) / 2. Integrals 0.05, 0.1;
    # (1 + 2/2) / 10, (2 + 8/11) / 10. Certified 0, 0; 0, 11/110.
    # greedy: gaps 1 and 20/120; integrals 1 and (2 + 8/6) / 10.
    "gaps to the best known values and to the solvers' own bounds": {
        "auto": ["2.27 %", "9.09 %", "15.57 %", "2.50 %", "10.00 %"],
        "cpsat-textbook": ["100.00 %"] * 5,
        "greedy": ["58.33 %", "100.00 %", "66.67 %", "-", "-"],
    },
    "better/equal/worse value of the row than of the column": {
        "": ["solver", "auto", "cpsat-textbook", "greedy"],
        "auto": ["-", "2/0/0", "2/0/0"],
        "cpsat-textbook": ["0/0/2", "-", "0/1/1"],
        "greedy": ["0/0/2", "1/1/0", "-"],
    },
    "best known values and bounds, and which solvers reach them": {
        "": ["instance", "reached by", "proved by", "jobs", "value", "bound", "gap"],
        "paper-a": ["auto", "auto", "2", "0", "0", "0.00 %"],
        "paper-b": ["auto", "auto", "2", "100", "100", "0.00 %"],
    },
}


@pytest.mark.parametrize("caption", TABLES)
def test_numbers(caption: str, text: str) -> None:
    found = rows(text, f"paper, 10 s: {caption}")
    expected = TABLES[caption]
    assert {name: found[name] for name in {"": found[""], **expected}} == {
        "": found[""],
        **expected,
    }


def test_checks_say_what_was_checked_and_what_was_not(text: str) -> None:
    checks = text.split("## Checks")[1].split("##")[0]
    assert checks.count("none violated (8 cases)") == 6
    assert (
        "- auto is never worse than greedy at the same limit: "
        "none violated (greedy 4 pairs of runs)." in checks
    )
    assert "Not compared with auto, for want of runs: cassini, local, cpsat." in checks


def test_threats_name_the_facts(text: str) -> None:
    threats = flat(text.split("## Threats to validity")[1])
    assert "one machine with 2 cores, a case with up to 2 threads" in threats
    assert "At least 8 cases ran at the same time" in threats  # all began in the same second
    assert "depend on the time limit (10 s)" in threats
    assert "Solvers ran with 1 to 2 seeds each" in threats
    assert "0 of 2 are not proved optimal" in threats
    assert "On 1 of 2 instances the best value is 0" in threats


# ------------------------------------------------------------------ the files


def test_every_figure_and_table_is_there(folder: Path, text: str) -> None:
    shown = re.findall(r"!\[.*\]\((.*)\)", text)
    assert shown == ["figures/paper-10s-cactus.svg"]  # a single solver has no profile
    for name in shown:
        ElementTree.parse(folder / name)
        assert (folder / name).with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert {path.name for path in (folder / "tables").iterdir()} == {
        "campaign.tex",
        *(
            f"paper-10s-{name}.tex"
            for name in ("outcomes", "times", "quality", "pairs", "instances")
        ),
    }


def test_csv_has_each_case_and_leaves_empty_what_is_not_known(folder: Path) -> None:
    text = (folder / "records.csv").read_text(encoding="utf-8")
    cases = list(csv.DictReader(io.StringIO(text)))
    assert len(cases) == len(CAMPAIGN)
    assert "nan" not in text.lower()
    half, crashed = cases[3], cases[5]
    assert [half[name] for name in ("value", "lower_bound", "best_value", "jobs")] == [
        *("110", "99", "100", "2"),
    ]
    assert float(half["primal_gap"]) == pytest.approx(1 / 11)
    assert float(half["certified_gap"]) == pytest.approx(0.1)
    assert (half["solved"], half["penalised_s"]) == ("False", "20.0")
    assert crashed["kind"] == "crash"
    assert crashed["error"] == "signal 6 | aborted"
    for name in ("value", "value_float", "lower_bound", "runtime_s", "certified_gap"):
        assert crashed[name] == ""


# ------------------------------------------------------------------ other campaigns


def report(folder: Path, *records: Record, best_known: Path | None = None) -> str:
    return write_report(records, folder, best_known=best_known).read_text(encoding="utf-8")


def drawings(text: str) -> list[str]:
    return re.findall(r"!\[.*\]\(figures/(.*)\.svg\)", text)


@pytest.mark.parametrize("kind", ["no_schedule", "infeasible", "out_of_memory", "crash", "invalid"])
def test_a_campaign_of_failures(kind: str, tmp_path: Path) -> None:
    write_report([record("p", "auto", kind=kind, runtime_s=None)], tmp_path, baseline="auto")
    text = (tmp_path / "report.md").read_text()
    assert "No solver that ran on all instances solved one" in text
    _, times, gaps, _, instances = (f"paper, 10 s: {caption}" for caption in TABLES)
    assert rows(text, times)["auto"] == ["0.00 %", "20.0", "20.0", "20.0", "1.00"]
    assert rows(text, gaps)["auto"] == ["100.00 %", "100.00 %", "100.00 %", "-", "-"]
    assert rows(text, instances)["p"] == ["-"] * 6


def test_a_solver_that_did_not_run_everywhere_is_marked_and_not_drawn(tmp_path: Path) -> None:
    text = report(
        tmp_path,
        record("p", "a", 5, lower_bound=5, runtime_s=1.0),
        record("q", "a", 5, lower_bound=5, runtime_s=1.0),
        record("p", "b", 5, lower_bound=5, runtime_s=1.0),
    )
    assert list(rows(text, "paper, 10 s: how the cases ended")) == ["", "a", "b \\*"]
    assert drawings(text) == ["paper-10s-cactus"]
    assert "did not run on all instances: b." in text


def test_figures_show_the_medians_over_seeds() -> None:
    section = section_of(
        *(
            record("p", "a", 5, lower_bound=5, runtime_s=time, seed=seed)
            for seed, time in enumerate((1.0, 2.0, 8.0))
        ),
        record("p", "b", 5, lower_bound=5, runtime_s=4.0),
        record("q", "a", 5),
        record("q", "b", 5, lower_bound=5, runtime_s=9.0),
    )
    looks = strokes(section.solvers)

    def line(figure: Picture, solver: str) -> list[list[float]]:
        (found,) = figure.findobj(lambda artist: artist.get_gid() == solver)
        assert isinstance(found, Line2D)
        points: list[list[float]] = np.asarray(found.get_xydata(), float).tolist()
        return points

    profile, solved = plot_profile(section, looks), plot_cactus(section, looks)
    assert line(profile, "a")[:-1] == [[1, 0], [1, 0.5]]
    assert line(profile, "b")[:-1] == [[1, 0], [1, 0.5], [2, 1]]
    assert line(solved, "a") == [[0.01, 0], [2, 1], [10, 1]]
    assert line(solved, "b") == [[0.01, 0], [4, 1], [9, 2], [10, 2]]


def test_ten_seeds_are_drawn_even_if_no_run_reaches_the_target(tmp_path: Path) -> None:
    text = report(
        tmp_path,
        *(record("p$x$", "a", 5 + seed, seed=seed, runtime_s=seed + 0.1) for seed in range(10)),
        *(record("p$x$", "never", 50, seed=seed) for seed in range(10)),
        *(record("p$x$", "few", 5, seed=seed) for seed in range(3)),
    )
    assert drawings(text) == ["paper-10s-targets"]
    assert "| p\\$x\\$ | a | 5.05 | 10 | 1 | - | - |" in text
    assert "| p\\$x\\$ | never | 5.05 | 10 | 0 | - | - |" in text
    assert "not shown for solvers with fewer: few 3." in flat(text)
    assert "p$x$" in (tmp_path / "figures" / "paper-10s-targets.svg").read_text()


def test_growth_is_drawn_for_fabric_only(tmp_path: Path) -> None:
    def run(nodes: int, suite: str) -> Record:
        offsets = {str(job): 0 for job in range(nodes // 2)}
        return record(
            f"f-{nodes}-a",
            "auto",
            5,
            lower_bound=5,
            runtime_s=nodes / 100,
            offsets=offsets,
            suite=suite,
            instance_sha256=f"{suite}{nodes}",
        )

    runs = (run(nodes, suite) for suite in ("fabric", "other") for nodes in (64, 128, 256))
    text = report(tmp_path, *runs)
    caption = "fabric, 10 s: growth of the time to a proof with the number of jobs"
    assert rows(text, caption)["auto"] == ["3", "0", "32 to 128", "1.00", "1.00 to 1.00"]
    assert [name for name in drawings(text) if "growth" in name] == ["fabric-10s-growth"]


def checks(records: list[Record], folder: Path, best_known: Path | None = None) -> list[str]:
    """Return the violations that a report lists."""
    text = report(folder, *records, best_known=best_known)
    lines = text.split("## Checks")[1].split("##")[0].splitlines()
    return [line.removeprefix("  - ") for line in lines if line.startswith("  - ")]


def test_bounds_are_checked_within_and_across_runs(tmp_path: Path) -> None:
    huge = 10**20
    assert checks(
        [
            record("p", "wrong", 5, lower_bound=6, status="feasible"),
            record("p", "high", 9, lower_bound="16/3"),
            record("p", "right", 5, lower_bound="14/3"),
            record("q", "same", f"{huge}/3", lower_bound=f"{huge + 1}/3"),
        ],
        tmp_path,
    ) == [
        "p, wrong, seed 0, 10 s: bound 6, value 5",
        f"q, same, seed 0, 10 s: bound {huge + 1}/3, value {huge}/3",
        "p, wrong, seed 0, 10 s: bound 6, best value 5",
        "p, high, seed 0, 10 s: bound 5.333333333, best value 5",
        f"q, same, seed 0, 10 s: bound {huge + 1}/3, best value {huge}/3",
    ]


def test_refusals_false_and_late_proofs_are_listed(tmp_path: Path) -> None:
    assert checks(
        [
            record("p", "a", 5, lower_bound=5, kind="invalid", faults=("objectives.contention",)),
            record("p", "b", 5, lower_bound=4, status="optimal", runtime_s=1.0),
            record("p", "c", 5, lower_bound=5, runtime_s=10.25),
        ],
        tmp_path,
    ) == [
        "p, a, seed 0, 10 s: objectives.contention",
        "p, b, seed 0, 10 s: value 5, bound 4",
        "p, c, seed 0, 10 s: proved after 10.250 s",
    ]


def test_a_value_below_a_known_bound_is_listed(tmp_path: Path) -> None:
    mine = record("p", "a", 5)
    path = tmp_path / "best_known.json"
    path.write_text(
        f"""{{"format": "metronome-best-known/1", "instances": {{
        "p": {{"sha256": "{mine.instance_sha256}", "value": "6", "lower_bound": "6"}}}}}}"""
    )
    expected = ["p, a, seed 0, 10 s: known bound 6, value 5"]
    assert checks([mine], tmp_path / "out", path) == expected


def test_circumstances_are_told(tmp_path: Path) -> None:
    records = [
        record("p", "a", 5, lower_bound=5, wall_s=30.0, commit="x+"),
        record("p", "b", 6, wall_s=30.0, started="2026-11-20T21:00:20Z", seed=3, commit=None),
        record("q", "a", 0, wall_s=5.0, started="2026-11-20T21:00:31Z"),
        record("r", "a", wall_s=30.0, started="2026-11-21T00:00:00Z", memory_limit_mb=None),
    ]
    text = flat(write_report(records, tmp_path).read_text())
    for words in (
        "| memory limits | 4,096 MB, no limit |",
        "| commit | x+, unknown, abc1234 |",
        "| started | 2026-11-20T21:00:00Z to 2026-11-21T00:00:00Z |",
        "At least 2 cases ran at the same time",
        "1 of 3 are not proved optimal",
        "The cases are of 3 commits. The checkout had changes that no commit holds.",
        "The commit of some cases is not known.",
    ):
        assert words in text


def test_cases_one_after_the_other_do_not_overlap(tmp_path: Path) -> None:
    # The start is known to the second only.
    later = record("q", "a", wall_s=10.9, started="2026-11-20T21:00:10Z")
    text = write_report([record("p", "a", wall_s=10.9), later], tmp_path).read_text()
    assert "Cases of this campaign did not overlap" in text


def test_values_better_than_the_best_known_are_named(tmp_path: Path) -> None:
    mine, other = record("p", "a", 5), record("q", "a", 5)
    path = tmp_path / "best_known.json"
    path.write_text(
        f"""{{"format": "metronome-best-known/1", "instances": {{
        "p": {{"sha256": "{mine.instance_sha256}", "value": "6", "lower_bound": null}}}}}}"""
    )
    write_report([mine, other], tmp_path / "out", best_known=path)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Better than the file of best known values: p (value 5, was 6)." in text
    assert "Not in that file: q." in text
    assert "Best values come from a file of best known values and these records" in flat(text)


def test_what_cannot_be_reported_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to report"):
        write_report([], tmp_path / "out")
    with pytest.raises(InputError, match=r"baseline: 'milp' is not in the records; choose from a$"):
        write_report([record("p", "a", 5)], tmp_path / "out", baseline="milp")
    with pytest.raises(InputError, match="p: started: must be a time such as"):
        write_report([record("p", "a", started="yesterday")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ showing


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (float("inf"), "-"),
        (0, "0"),
        (0.00123, "0.00123"),
        (0.09996, "0.100"),
        (9.996, "10.0"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (-0.5, "-0.500"),
    ],
)
def test_three_digits(value: float | None, shown: str) -> None:
    assert three_digits(value) == shown


def test_exact_numbers() -> None:
    assert exact(Fraction(1234567, 7)) == "176,366.7143"
    assert exact(Fraction(10**20, 3), Fraction(10**20 + 1, 3)) == f"{10**20}/3"
    assert exact(None) == "-"


def test_names_do_not_break_tables(tmp_path: Path) -> None:
    text = report(tmp_path, record("<a> & *b*|x_1", "$5", 5))
    assert "\n| \\<a> & \\*b\\*\\|x\\_1 | \\$5 | - | 2 | 5 | - | - |\n" in text
    table = (tmp_path / "tables" / "paper-10s-instances.tex").read_text().splitlines()
    assert table == [
        "% paper, 10 s: best known values and bounds, and which solvers reach them",
        r"\begin{tabular}{@{}lllrrrr@{}}",
        r"  \toprule",
        r"  instance & reached by & proved by & jobs & value & bound & gap \\",
        r"  \midrule",
        r"  \textless{}a\textgreater{} \& *b*\textbar{}x\_1 & \$5 & -- & 2 & 5 & -- & -- \\",
        r"  \bottomrule",
        r"\end{tabular}",
    ]
