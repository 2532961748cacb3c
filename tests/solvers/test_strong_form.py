"""Strong models against enumeration, and back ends that fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from benchmarks import textbook
from metronome_opt import solve
from metronome_opt.errors import SolverError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.solvers import back_end_tasks, strong_form
from metronome_opt.solvers.backends import solve_cpsat, solve_highs
from metronome_opt.solvers.cost_network import tables
from metronome_opt.solvers.cost_network.eliminate import Eliminated, eliminate
from metronome_opt.solvers.cost_network.model import CostNetwork
from metronome_opt.solvers.cost_network.tables import build
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram, Program
from metronome_opt.solvers.run import SolverRun
from metronome_opt.solvers.strong_form import StrongForm
from metronome_opt.verify import verify_schedule
from tests import child_tasks as tasks
from tests.builders import HARD, hard_instance
from tests.landscape import optimum
from tests.running import ROOT
from tests.solvers.searches import searching
from tests.strategies import assigned, crowded
from tests.tiers import examples

OFTEN_PROVED = [HealthCheck.filter_too_much]  # what is drawn leaves nothing to a back end
Drawn = tuple[SolverRun, CostNetwork, list[Eliminated], int]


@st.composite
def modelled(draw: st.DrawFn) -> Drawn:
    """Draw a search with any incumbent, a network that may be cut down, and a cell limit."""
    search = searching(*draw(assigned(crowded())))
    gone: list[Eliminated] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "SMALL", draw(st.sampled_from((1, 10, 2**16))))
        network = build(search)
        if draw(st.booleans()):
            max_left = draw(st.sampled_from((1, 5, 20)))
            network, gone = eliminate(search, network, draw(st.sampled_from((5, 100))), max_left)
    return search, network, gone, draw(st.sampled_from((3, 20, 5000)))


@pytest.mark.parametrize(
    ("kind", "back_end"),
    [
        (CpsatProgram, partial(solve_cpsat, subsolvers=("max_lp",))),
        pytest.param(CpsatProgram, partial(solve_cpsat, isolated=True), marks=pytest.mark.slow),
        pytest.param(MilpProgram, solve_highs, marks=pytest.mark.slow),
    ],
)
@given(modelled())
@examples(60, suppress_health_check=OFTEN_PROVED)
def test_models_agree_with_enumeration(
    kind: type[Program], back_end: Callable[..., None], drawn: Drawn
) -> None:
    """Solve a model; the incumbent ends as the optimum, proved."""
    search, network, gone, cells = drawn
    left = [cost.excess for cost in network.costs if cost.link is None and cost.excess is not None]
    too_many = any(np.count_nonzero(excess <= network.headroom) > cells for excess in left)
    assume(not (search.proved or network.headroom < 0 or too_many))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strong_form, "_FEW_CELLS", cells)
        form = StrongForm(network, gone, search)
    program = kind(form)
    form.state(program)
    back_end(search, program)
    assert search.incumbent == search.bound == optimum(search.instance)
    assert search.stop is StopReason.PROVED


def unproved(instance: Instance) -> SolverRun:
    """Return a search with an incumbent that is far from proved."""
    return searching(instance, instance.unshifted, time_limit=60)


def stated(search: SolverRun) -> CpsatProgram:
    form = textbook.TimeIndexed(search.compiled)
    program = CpsatProgram(form)
    form.state(program)
    return program


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (tasks.die, r"signal SIGKILL \(out of memory\?\): about to be killed"),
        (tasks.end_abnormally, "ends with ABNORMAL, which is not understood"),
    ],
)
def test_failing_process_is_named_and_its_bound_kept(
    task: Callable[..., None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(back_end_tasks, "run_cpsat", task)
    search = unproved(HARD)
    value = search.incumbent
    problem = stated(search)
    with pytest.raises(SolverError, match=said):
        solve_cpsat(search, problem, isolated=True)
    assert search.incumbent == value
    assert search.bound == 2 * problem.form.scale


def islands() -> Instance:
    """Return two hard instances that have nothing to do with each other."""
    one = hard_instance(9, 3)
    jobs, links = list(one.jobs), list(one.links)
    for job in one.jobs:
        used = {f"{name}-too": flows for name, flows in job.links.items()}
        jobs.append(job.model_copy(update={"name": f"{job.name}-too", "links": used}))
    links += [link.model_copy(update={"name": f"{link.name}-too"}) for link in one.links]
    return one.replace(jobs=tuple(jobs), links=tuple(links))


def crash(*_: object, **__: object) -> None:
    raise SolverError("the back end fell over")


@pytest.fixture
def nothing_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the proofs to the back end."""
    monkeypatch.setattr(strong_form, "_MAX_CELLS", 0)
    monkeypatch.setattr(tables, "SMALL", 1)


@pytest.mark.usefixtures("nothing_prepared")
def test_crash_in_one_block_is_noted_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[SolverRun] = []

    def first_crash(part: SolverRun, *_: object, **__: object) -> None:
        calls.append(part)
        if len(calls) == 1:
            crash()

    monkeypatch.setattr(strong_form, "solve_cpsat", first_crash)
    instance = islands()
    result = solve(instance, "cpsat", time_limit=100, threads=1)
    assert len({id(part) for part in calls}) == len(calls) == 2
    assert result.status is Status.FEASIBLE
    assert verify_schedule(instance, result.schedule) == ()
    assert any(
        note.startswith("block of job-") and note.endswith("the back end fell over")
        for note in result.notes
    )


def test_failure_without_schedule_is_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metronome_opt.solvers.back_end_tasks.solve_cpsat", crash)
    with pytest.raises(SolverError, match="fell over"):
        solve(HARD, textbook.cpsat, time_limit=4, threads=1)
