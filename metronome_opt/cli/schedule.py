"""``metronome simulate --schedule``: a schedule beside unshifted jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.bench.simulations import FILE
from metronome_opt.cli.options import print_json, wrote
from metronome_opt.cli.progress import live_line
from metronome_opt.documents import check_targets, make_folder, write_text
from metronome_opt.engine.runner import alone_ms
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.report.classes import jobs_frame
from metronome_opt.report.page import Point, find_problem
from metronome_opt.report.tables import JOBS_LEGEND, gated_text, jobs_table, terminal
from metronome_opt.schedule import Schedule, read_schedule
from metronome_opt.slowdown.plan import Plan, mean_slowdown
from metronome_opt.slowdown.player import WARM_UP, Play, Player
from metronome_opt.slowdown.times import Times
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TABLE, _PICTURE = "jobs.csv", "link.svg"
_PERIODS = 6  # of the slowest job on the link of the picture


def simulate_schedule(problem: str, path: Path, output: Path, *, as_json: bool) -> int:
    """Simulate a schedule: print the iteration time of each job, write a table and a picture.

    The same files make the same output.
    """
    from metronome_opt.plot import save_figure

    schedule = read_schedule(path)
    solved = find_problem([Point(path, schedule)], problem)
    instance = solved.instance
    targets = [output / _TABLE, output / _PICTURE]
    if (output / FILE).exists():
        raise InputError(f"{output}: holds the simulations of a campaign; name another --output")
    make_folder(output)
    check_targets([path], targets)
    with live_line("simulating the jobs", str):
        times = Times.simulated(instance, schedule)
        picture = _picture(instance, schedule)
    frame = jobs_frame(instance, times, schedule.stretch)
    frame = frame.rename(columns={"before_ms": "unshifted_ms", "after_ms": "expected_ms"})
    frame.insert(2, "alone_ms", [float(alone_ms(instance, job)) for job in instance.jobs])
    write_text(targets[0], frame.to_csv(float_format="%.6g"))
    if picture is None:
        targets.pop()
    else:
        save_figure(picture, targets[1])
    if as_json:
        before, after = (float(mean_slowdown(instance, each)) for each in times)
        document = {
            "instance": instance.name,
            "slowdown": {"unshifted": before, "expected": after},
            "jobs": frame.reset_index().to_dict("records"),
            "written": list(map(str, targets)),
        }
        print_json(document)
    else:
        terminal().print(jobs_table(instance, schedule, times, placed=solved.placed))
        terminal().print(JOBS_LEGEND)
        terminal().print(gated_text(instance, schedule, times))
    wrote(*targets)
    return 0


def _picture(instance: Instance, schedule: Schedule) -> Figure | None:
    """Return a link as simulated, unshifted and under the schedule; None if none is shared.

    It is the one with the maximum late traffic of the unshifted jobs, or of the schedule if these
    cannot be judged.
    """
    import pandas as pd

    from metronome_opt.plot.timeline import LinkTrace, plot_link

    judged = evaluate(
        instance, schedule.offsets, schedule.stretch, stretch_limit=schedule.stretch_limit
    )
    if not instance.needs_stretch:
        judged = evaluate(instance, instance.unshifted)
    link = max(judged.links, key=lambda each: (each.late, each.jobs), default=None)
    if link is None or link.jobs < 2:
        return None
    player = Player(instance, (Play("fair", 0),))
    plans = {"unshifted": Plan(instance.unshifted), "your schedule": Plan.of(instance, schedule)}
    capacity = next(each.capacity for each in instance.links if each.name == link.name)
    crossing = [instance.jobs[index].period for index in instance.jobs_on[link.name]]
    begin = WARM_UP * max(job.period for job in instance.jobs) * instance.slot_ms
    traces = {name: pd.DataFrame(player.traced(plan)) for name, plan in plans.items()}
    end = begin + _PERIODS * max(crossing) * instance.slot_ms
    return plot_link(LinkTrace(link.name, capacity, traces, begin, end))
