"""Figures of recorded runs: ``testbed/three/0.03/free`` is a mean iteration over the period."""

from __future__ import annotations

from collections import defaultdict

from benchmarks.evaluation.figures import Figure, Figures
from benchmarks.testbed.agreement import as_run, steady, times_of, usable
from benchmarks.testbed.cases import JITTER, QUEUES, read_cases
from benchmarks.testbed.placed import FILE as PLACED
from benchmarks.testbed.placed import summary
from benchmarks.testbed.run import BedRun
from metronome_opt.files.journal import read_journal

_TESTBED = {JITTER: "testbed/{0.name}/{0.jitter}", QUEUES: "testbed/queues/{0.name}/{0.queue_ms}"}
_KINDS = {"free": "free", "solved": "gated"}  # modes of runs of placements


def testbed_figures() -> Figures:
    """Return mean iterations over periods on real TCP, free and in windows, first ones left out.

    Those of ``queues`` are over cubic and 200 Mbit/s, by queue in ms.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for path, cell in _TESTBED.items():
        cases = {case.name: case for case in read_cases(path)}
        for run in steady(read_journal([path.with_suffix(".jsonl.xz")], BedRun)):
            case = as_run(cases[run.case], run)
            if (case.congestion, case.uplink_mbps) != ("cubic", 200):
                continue
            key = cell.format(case) + ("/gated" if run.periods else "/free")
            for name, job in zip(case.job_names, case.jobs, strict=True):
                found[key].append(float(times_of(run.jobs[name])[1:].mean()) / job.period)
    return {key: Figure(sum(values) / len(values)) for key, values in found.items()} | _placed()


def _placed() -> Figures:
    """Return mean iterations of clusters over periods, by how jobs were placed."""
    runs = usable(read_journal([PLACED.with_suffix(".jsonl.xz")], BedRun))
    means = summary(runs).T.mean()
    found: Figures = {}
    for mode, kind in _KINDS.items():
        found[f"testbed/placed/{kind}/runs"] = Figure(sum(run.mode == mode for run in runs))
        for way in means.index.unique("placed"):
            found[f"testbed/placed/{way}/{kind}"] = Figure(float(means[way, mode]))
    return found
