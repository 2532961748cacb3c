"""The words of a report of simulations: what its numbers mean, and what they may not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metronome_opt.bench.evaluation.estimates import BASELINE, EXCLUSIVE, IDEAL, Estimates
from metronome_opt.bench.evaluation.marks import RIVAL, SUBJECT
from metronome_opt.bench.evaluation.runs import Part
from metronome_opt.bench.evaluation.tables import ONLY_FINISHED, SOME_SEEDS
from metronome_opt.bench.intervals import CONFIDENCE, RESAMPLES, Interval
from metronome_opt.bench.shown import count
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.tables import markdown_text
from metronome_opt.plot.style import counted
from metronome_opt.simulate.conditions import Conditions

DEFINITIONS = f"""\
- **A run** is one policy on one scenario. Its mean, median and p99 are over its jobs, p99 with
  linear interpolation between the two nearest jobs; then the mean over seeds is taken.
- **Intervals**, in brackets, are {100 * CONFIDENCE:g} % bootstrap confidence intervals of the mean
  over seeds (BCa, {RESAMPLES:,} resamples of whole seeds, since jobs of one run are not
  independent). Of one seed there is no interval. For all cells together a seed is worth its mean
  over the cells.
- **Changes are paired**: every policy meets the same scenario, so a measure is divided by that of
  the other policy with the same cell and seed, and the mean over seeds is that of these ratios.
- **Completion** is from arrival to end. Where a job did not finish before the horizon, its
  completion is not known, and no mean completion of such runs is given: a mean over the others
  would be shorter the worse a policy is. Jobs that finished in both runs can be compared; such
  numbers are marked {ONLY_FINISHED}.
- **Slowdown** is a job's mean iteration over the one it would have if the network were its own;
  of the p99 iteration, that iteration over the same. Jobs without a whole iteration have none.
  It is the product of two factors. **By placement**: the iteration that the job would have where it
  was placed if nobody else were there, over the one with a network of its own. **By others**: its
  mean iteration over the former, so contention and being held back for a slot. Each factor is a
  mean over jobs, so the product of these means is not quite the mean slowdown.
- **Queueing** is from arrival to start; where a job did not start, the mean is not known.
- **Utilisation** of links in use is all that was carried over what the links could have carried
  while a job was placed across them; of all links, over what they could have carried throughout.
  Links do not limit {IDEAL}, which may so carry more than they could.
- **Used time in contention** is the time with more demand than capacity, over that with a job
  placed across the link, summed over links.
- **Re-phasings per job-hour** are counted from a job's start to its end; those of the highest class
  are of the jobs of the largest priority that the scenario has.
- A dash is not known or does not apply. {SOME_SEEDS} is not over all seeds: some runs were not
  done, or some scenarios have no such jobs.
"""

_CHANGES = ("shorter for certain", "perhaps no change", "longer for certain", "not known")


def header(records: Sequence[SimulationRecord], whole: Part) -> Iterator[tuple[str, str]]:
    """Yield what ran, under what conditions and with what, as rows of a table."""
    done = sum(record.went_well for record in records)
    yield "study", f"{records[0].study} ({records[0].study_sha256[:12]})"
    yield "runs", f"{count(len(records))}, of which {count(done)} were done"
    yield "cells", count(len(whole.cells))
    yield "seeds", _seeds(whole.seeds)
    yield "policies", ", ".join(whole.policies)
    yield "conditions of all runs", _conditions([record.conditions for record in records])
    commits = dict.fromkeys(record.commit or "unknown" for record in records)
    yield "commit", ", ".join(commits)
    packages = sorted({package for record in records for package in record.versions})
    versions = (
        f"{package} "
        + " and ".join(
            dict.fromkeys(
                record.versions[package] for record in records if package in record.versions
            )
        )
        for package in packages
    )
    yield "versions", ", ".join(versions)


def failures(records: Sequence[SimulationRecord]) -> Iterator[str]:
    """Yield a line for each run that was not done."""
    for record in records:
        if not record.went_well:
            yield f"- {markdown_text(f'{record.title}: {record.outcome}')}"


def cautions(part: Part) -> Iterator[str]:
    """Yield what limits the numbers of a part."""
    if len(part.seeds) == 1:
        yield "There is one seed, so there are no confidence intervals."
    missing = [
        f"{policy} {expected - len(part.of(policy))}"
        for policy in part.policies
        if len(part.of(policy)) < (expected := len(part.cells) * len(part.seeds))
    ]
    if missing:
        yield (
            f"Runs that were not done: {', '.join(missing)}. Means are over the seeds that ran in "
            f"all cells, and marked {SOME_SEEDS}."
        )
    if part.unfinished:
        jobs = sum(len(run.jobs) for run in part.runs.values())
        yield (
            f"**{count(part.unfinished)} of {count(jobs)} jobs did not finish.** Completion times "
            "of their runs are not known; see slowdown, iterations done, and the jobs that "
            f"finished in both runs ({ONLY_FINISHED}), which are the shorter ones."
        )


def where_it_fails(cells: Sequence[Estimates]) -> str:
    """Return in how many cells the subject of the marks gains, brings nothing or loses."""
    found: dict[str, list[str]] = {words: [] for words in _CHANGES}
    for each in cells:
        estimate = each.find(SUBJECT, "completion_mean_s", BASELINE)
        found[_what_changes(None if estimate is None else estimate.interval)].append(
            each.part.title
        )
    many = counted(len(cells), "cell")
    lines = [f"Mean completion under {SUBJECT} against {BASELINE}, in {many}:\n"]
    for words, titles in found.items():
        listed = "; ".join(map(markdown_text, titles)) or "none"
        lines.append(f"- {words} ({len(titles)}): {listed}")
    return "\n".join(lines) + "\n"


def _what_changes(ratio: Interval | None) -> str:
    shorter, open_, longer, unknown = _CHANGES
    if ratio is None:
        return unknown
    if 1.0 in ratio:
        return open_
    return shorter if ratio.mean < 1.0 else longer


def threats(whole: Part) -> Iterator[str]:
    """Yield what limits the conclusions, a paragraph each."""
    yield (
        "**A model.** Nothing was run on a cluster. Traffic is a fluid that shares links at once "
        "and exactly; packets, losses, congestion control and its delays are left out, and the "
        "traffic of the jobs is computed from published sizes of models."
    )
    yield (
        f"**Policies.** {', '.join(whole.policies)} are implementations of this project. "
        f"{BASELINE}, {EXCLUSIVE} and {RIVAL} stand for kinds of schedulers, and their authors "
        "might do better. Published headline figures come from other clusters and workloads; they "
        "are marks here, not results to be reproduced."
    )
    yield (
        f"**{IDEAL}** has no contention, so it bounds what sharing links can cost under its "
        "placement and order of jobs; a policy that places or orders jobs otherwise may queue less "
        "than it."
    )
    yield (
        f"**Seeds.** There are {counted(len(whole.seeds), 'seed')}. Bootstrap intervals of few "
        "seeds are somewhat too narrow, and with many cells and measures some differences that are "
        "certain one by one are chance."
    )


def _seeds(seeds: Sequence[int]) -> str:
    whole = list(range(seeds[0], seeds[-1] + 1)) == list(seeds)
    if len(seeds) > 1 and whole:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _conditions(conditions: Sequence[Conditions]) -> str:
    """Return what all runs have in common and is not as usual."""
    usual = Conditions()
    common = [
        f"{name}={getattr(conditions[0], name)}"
        for name in Conditions.model_fields
        if len({getattr(each, name) for each in conditions}) == 1
        and getattr(conditions[0], name) != getattr(usual, name)
    ]
    return ", ".join(common) or "nothing disturbs them but what the cells say"
