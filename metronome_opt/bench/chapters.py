"""The contents of a report, in order: text, tables and drawings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from metronome_opt.bench.cases import MeasuredCase
from metronome_opt.bench.checks import check_all, name_of
from metronome_opt.bench.figures import (
    MOST_PANELS,
    Strokes,
    plot_cactus,
    plot_growth,
    plot_profile,
    plot_targets,
    proving_solvers,
)
from metronome_opt.bench.growth import growth, growth_table
from metronome_opt.bench.items import Drawing, Item
from metronome_opt.bench.pairwise import never_worse
from metronome_opt.bench.references import References
from metronome_opt.bench.results import (
    classes_table,
    instances_table,
    outcomes_table,
    pairs_table,
    quality_table,
    times_table,
)
from metronome_opt.bench.sections import Section
from metronome_opt.bench.shown import count, exact
from metronome_opt.bench.tables import markdown_text
from metronome_opt.bench.targets import MIN_SEEDS, target_runs, targets_table, too_few_seeds

if TYPE_CHECKING:
    pass

BEST_SOLVER = "auto"
RIVALS = ("greedy", "cassini", "local", "cpsat")
GROWING_SUITE = "fabric"


def section_chapter(
    section: Section, references: References, baseline: str | None, looks: Strokes
) -> Iterator[Item]:
    """Yield what one section shows."""
    yield f"## {markdown_text(section.title)}\n"
    yield outcomes_table(section)
    yield times_table(section, baseline)
    yield quality_table(section)
    classes = section.classes()
    if section.setting is None or 1 < len(classes) < len(section.problems):
        yield classes_table(section)
    if len(section.solvers) > 1:
        yield pairs_table(section)
    yield from _time_drawings(section, looks)
    if section.setting is not None:
        yield from _targets(section, looks)
        if section.setting.suite == GROWING_SUITE:
            yield from _growth(section, references, looks)
        yield instances_table(section, references)


def _time_drawings(section: Section, looks: Strokes) -> Iterator[Item]:
    shown = proving_solvers(section)
    absent = [solver for solver in section.solvers if solver not in shown]
    if not shown:
        yield "No solver that ran on all instances solved one: there is no figure of times.\n"
        return
    if len(shown) > 1:
        yield Drawing(
            f"{section.slug}-profile",
            "Performance profile: how often a solver is within a factor of the fastest.",
            plot_profile(section, looks),
        )
    yield Drawing(
        f"{section.slug}-cactus",
        "Cactus plot: how many instances are solved when each gets so much time.",
        plot_cactus(section, looks),
    )
    if absent:
        yield (
            "Not drawn, since they solved nothing or did not run on all instances: "
            f"{_listed(absent)}.\n"
        )


def _targets(section: Section, looks: Strokes) -> Iterator[Item]:
    runs, few = target_runs(section), too_few_seeds(section)
    if few:
        seeds = ", ".join(f"{markdown_text(solver)} {seeds}" for solver, seeds in few.items())
        yield (
            f"Time to target needs at least {MIN_SEEDS} seeds and is not shown for solvers with "
            f"fewer: {seeds}.\n"
        )
    elif not runs:
        yield (
            f"Time to target is not shown: no solver found schedules with at least {MIN_SEEDS} "
            "seeds.\n"
        )
    if runs:
        yield targets_table(section, runs)
        instances = len({run.problem for run in runs})
        which = f", the {MOST_PANELS} slowest of {instances}" if instances > MOST_PANELS else ""
        yield Drawing(
            f"{section.slug}-targets",
            f"Time to target, a panel for each instance{which}.",
            plot_targets(section, runs, looks),
        )


def _growth(section: Section, references: References, looks: Strokes) -> Iterator[Item]:
    growths = growth(section, references.jobs)
    if not growths:
        yield "No instance was solved: nothing can be said of how the time grows.\n"
        return
    yield growth_table(section, growths)
    if any(each.unsolved for each in growths):
        yield (
            "The fits are through solved instances only. Where larger ones were not solved, the "
            "exponent is likely too small: those would have taken longer than the limit.\n"
        )
    yield Drawing(
        f"{section.slug}-growth",
        "Seconds to a proof by number of jobs, a point for each instance.",
        plot_growth(section, growths, looks),
    )


# ------------------------------------------------------------------ checks


def checks_chapter(
    cases: Sequence[MeasuredCase], whole: Section, references: References, best_known: bool
) -> Iterator[Item]:
    """Yield what must hold of all cases, and where it does not."""
    yield "## Checks\n"
    lines: list[str] = []
    for check in check_all(cases, references):
        lines += _verdict(check.claim, f"{count(check.count)} cases", check.violations)
    lines += _dominance(whole)
    yield "\n".join(lines) + "\n"
    if best_known:
        yield from _against_known(whole, references)


def _verdict(claim: str, over: str, violations: Sequence[str]) -> list[str]:
    if not violations:
        return [f"- {claim}: none violated ({over})."]
    return [
        f"- {claim}: **{count(len(violations))} violated** ({over}):",
        *(f"  - {markdown_text(violation)}" for violation in violations),
    ]


def _dominance(whole: Section) -> list[str]:
    if BEST_SOLVER not in whole.solvers:
        return [f"- Whether {BEST_SOLVER} is never worse than others: not checked, it did not run."]
    found = never_worse(whole, BEST_SOLVER, RIVALS)
    ran = [rival for rival, pairs in found.compared.items() if pairs]
    absent = [rival for rival in RIVALS if rival not in ran]
    lines = []
    if ran:
        lines += _verdict(
            f"{BEST_SOLVER} is never worse than {', '.join(ran)} at the same limit",
            ", ".join(f"{rival} {count(found.compared[rival])}" for rival in ran)
            + " pairs of runs",
            [
                f"{name_of(case)}: {_value(case, other)}; {other.record.solver}, "
                f"seed {other.record.seed}: {_value(other, case)}"
                for case, other in found.violations
            ],
        )
    if absent:
        lines.append(f"- Not compared with {BEST_SOLVER}, for want of runs: {_listed(absent)}.")
    return lines


def _value(case: MeasuredCase, other: MeasuredCase) -> str:
    return "no schedule" if case.value is None else exact(case.value, other.value)


def _against_known(whole: Section, references: References) -> Iterator[Item]:
    names = {problem.sha256: problem.instance for problem in whole.problems}
    missing = [name for sha, name in names.items() if sha not in references.known_values]
    better = [
        f"{names[sha]} (value {exact(references.values[sha], known)}, was {exact(known)})"
        for sha, known in references.known_values.items()
        if references.values[sha] < known
    ]
    yield f"Better than the file of best known values: {_listed(better) or 'none'}.\n"
    if missing:
        yield f"Not in that file: {_listed(missing)}.\n"
    if references.outdated:
        yield (
            f"In that file with another checksum, so not used: {_listed(references.outdated)}.\n"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(markdown_text, names))
